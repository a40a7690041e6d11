package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// groupUser is a user of a group whose workspace is a folder that the group may write to.
type groupUser struct {
	t       *testing.T
	id      uint32
	group   uint32
	dir     string
	environ []string
}

// oacp runs a command as the user, who has the umask 022, and returns its output. It must succeed.
func (u groupUser) oacp(args ...string) string {
	u.t.Helper()
	command := exec.Command("oacp", args...)
	command.Path = "/proc/self/exe" // no other path to this program is open to all users
	command.Dir, command.Env = u.dir, u.environ
	command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: u.id, Gid: u.id, Groups: []uint32{u.group}}}
	out, err := command.CombinedOutput()
	if err != nil {
		u.t.Errorf("user %d: oacp %s: %v\n%s", u.id, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestTwoUsersOfAGroup lets two users of a group work in one workspace. Each needs what the other has
// made: folders, locks, cursors, journals and messages.
func TestTwoUsersOfAGroup(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("acting for other users needs root")
	}
	folder := t.TempDir()
	for _, open := range []string{folder, filepath.Dir(folder)} {
		if err := os.Chmod(open, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	const group = 3100
	shared := filepath.Join(folder, "shared")
	if err := os.Mkdir(shared, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(shared, 3001, group); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(shared, 0o775|fs.ModeSetgid); err != nil {
		t.Fatal(err)
	}
	user := func(id uint32, name string) groupUser {
		home := filepath.Join(folder, name)
		if err := os.Mkdir(home, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(home, int(id), int(id)); err != nil {
			t.Fatal(err)
		}
		return groupUser{t, id, group, shared, []string{"HOME=" + home, "OACP_AGENT=" + name, "OACP_WORKSPACE=" + shared + "/ws", "PATH=" + os.Getenv("PATH")}}
	}
	a, b := user(3001, "a"), user(3002, "b")
	defer syscall.Umask(syscall.Umask(0o022))

	a.oacp("init", "--dir", "ws", "--agents", "a,b")
	a.oacp("send", "--to", "b", "--type", "question", "--subject", "One", "--body", "x")
	a.oacp("send", "--to", "b", "--type", "question", "--subject", "Two", "--body", "x")
	for _, u := range []groupUser{a, b} {
		u.oacp("watch", "--agent", "b")
		u.oacp("run", "--agent", "a", "--once", "--", "true")
	}
	b.oacp("read", "--all")
	b.oacp("run", "--once", "--reply", "--allow-from", "a", "--", "echo", "Yes")
	b.oacp("send", "--to", "a", "--type", "task_request", "--subject", "Three", "--body", "x")
	b.oacp("add-agent", "c")
	a.oacp("send", "--to", "b,c", "--type", "question", "--subject", "Four", "--body", "x")
	a.oacp("ack", "--all")
	b.oacp("ack", "--all")
	a.oacp("doctor", "--fix")
	b.oacp("doctor", "--fix")
	if out := a.oacp("inbox", "--all"); !strings.Contains(out, "a: nothing pending") || !strings.Contains(out, "c: 1 pending") {
		t.Errorf("in the end, the inboxes hold:\n%s", out)
	}
	err := filepath.WalkDir(filepath.Join(shared, "ws"), func(path string, entry fs.DirEntry, err error) error {
		info, infoErr := entry.Info()
		if err != nil || infoErr != nil {
			t.Errorf("%s: %v %v", path, err, infoErr)
		} else if info.Mode()&0o060 != 0o060 || entry.IsDir() && info.Mode()&fs.ModeSetgid == 0 {
			t.Errorf("%s has the permissions %s", path, info.Mode())
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
