package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/oacp-go/oacp/internal/testing/powercut"
)

var btrfsCuts = flag.Int("btrfs", 0, "let the power of a real btrfs fail this many times; needs root, loop devices and mkfs.btrfs")

// TestBtrfsPowerCuts lets the power fail on a real btrfs: it kills a command before one of its changes of the disk, copies the
// image behind the file system without a sync, and goes on with the copy. What commands before accepted is in its
// place, and the killed command did its work or nothing.
func TestBtrfsPowerCuts(t *testing.T) {
	if *btrfsCuts == 0 {
		t.Skip("run it with -btrfs 100, as root")
	}
	b := &btrfs{folder: t.TempDir(), mounted: filepath.Join(t.TempDir(), "mounted")}
	b.make(t)
	t.Cleanup(func() { b.unmount(t) })
	b.mustRun(t, cutInit)
	b.run(t, "send --from claude --to codex --type notification --subject First --body x", 0)
	b.commit(t)
	random := rand.New(rand.NewPCG(16, 100))
	ended, killed := 0, 0
	for cut := range *btrfsCuts {
		// A message that was sent, and often handled, a moment ago has the most to lose.
		target := b.send(t, cut)
		if cut%2 == 1 {
			b.commit(t) // as btrfs does every thirty seconds
		}
		doing := cutOperations[cut%len(cutOperations)]
		if doing.handled {
			b.mustRun(t, "ack "+target+" --agent codex")
		}
		before := b.boxes(t)
		exit := b.run(t, strings.ReplaceAll(doing.line, "ID", target), 1+random.IntN(doing.changes))
		after := b.boxes(t)
		b.cutPower(t)
		what := fmt.Sprintf("cut %d of %q, exit status %d", cut, doing.line, exit)
		if exit == 0 {
			ended++
			before = after
		} else {
			killed++
		}
		b.check(t, what, target, doing, before, b.recovered(t))
		if t.Failed() {
			return
		}
	}
	t.Logf("%d power cuts: %d commands had ended, %d were killed", *btrfsCuts, ended, killed)
	if ended == 0 || killed == 0 {
		t.Error("the cuts did not reach both sides of a command's end")
	}
}

// cutOperation is a command that is killed, with ID for the message.
type cutOperation struct {
	line string
	// handled says that the message was acknowledged before.
	handled bool
	// changes is a little more than the number of changes that the command makes.
	changes int
	// from and to are the boxes of codex between which the message moves. answers says that codex sends an answer.
	from, to string
	answers  bool
}

const (
	inInbox   = "codex/inbox "
	inArchive = "codex/inbox/archive "
)

var cutOperations = []cutOperation{
	{line: "send --from codex --to claude --type notification --subject More --body x", changes: 30, from: inInbox, to: inInbox, answers: true},
	{line: "ack ID --agent codex", changes: 14, from: inInbox, to: inArchive},
	{line: "reply ID --from codex --body so", changes: 40, from: inInbox, to: inInbox, answers: true},
	{line: "restore ID", handled: true, changes: 20, from: inArchive, to: inInbox},
	{line: "recall ID --agent claude", changes: 20, from: inInbox, to: "codex/dead_letter "},
	{line: "run --agent codex --once --reply -- cat", changes: 60, from: inInbox, to: inArchive, answers: true},
	{line: "ack ID --agent codex", handled: true, changes: 14, from: inArchive, to: inArchive},
}

// btrfs is a file system in an image, and the folder where it is mounted.
type btrfs struct {
	folder, mounted string
	images          int
}

func (b *btrfs) image() string { return filepath.Join(b.folder, fmt.Sprintf("image%d", b.images)) }

func (b *btrfs) base() string { return filepath.Join(b.mounted, "here") }

// make makes the first image, or skips the test.
func (b *btrfs) make(t *testing.T) {
	t.Helper()
	image, err := os.Create(b.image())
	if err == nil {
		err = errors.Join(image.Truncate(256<<20), image.Close(), os.Mkdir(b.mounted, 0o755))
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"mkfs.btrfs", "--quiet", b.image()}, {"mount", "-o", "loop", b.image(), b.mounted}} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Skipf("this machine has no real btrfs: %q: %v: %s", args, err, out)
		}
	}
	for _, folder := range []string{"w", "home"} {
		if err := os.MkdirAll(filepath.Join(b.base(), folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// commit lets the file system write everything.
func (b *btrfs) commit(t *testing.T) {
	t.Helper()
	folder, err := os.Open(b.mounted)
	if err == nil {
		err = errors.Join(unix.Syncfs(int(folder.Fd())), folder.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (b *btrfs) unmount(t *testing.T) {
	t.Helper()
	if out, err := exec.Command("umount", b.mounted).CombinedOutput(); err != nil {
		t.Errorf("umount: %v: %s", err, out)
	}
}

// run runs a command and kills it before one of its changes, unless that is 0.
func (b *btrfs) run(t *testing.T, line string, killBefore int) (exit int) {
	t.Helper()
	c := (&cutTest{}).command(t, b.base(), line)
	c.KillBefore = killBefore
	return powercut.NewRecorder(t, b.base()).Run(t, c).Exit
}

func (b *btrfs) mustRun(t *testing.T, line string) { (&cutTest{}).run(t, b.base(), line) }

// send sends a message to codex and returns its id.
func (b *btrfs) send(t *testing.T, n int) string {
	t.Helper()
	before := b.boxes(t)
	b.mustRun(t, fmt.Sprintf("send --from claude --to codex --type question --subject Number-%d --body because", n))
	for id := range b.boxes(t) {
		if before[id] == "" {
			return id
		}
	}
	t.Fatal("the message is nowhere")
	return ""
}

// boxes returns the boxes of each message, without the dead letters of its sender. btrfs makes the name of a file durable with
// its bytes, before older names of the folder. If that leaves the staged copy for an inbox and not that for the outbox, nobody
// can tell whether the message was sent and its outbox copy removed, so Recover keeps it for the sender.
func (b *btrfs) boxes(t *testing.T) map[string]string {
	t.Helper()
	disk, err := powercut.ReadDisk(b.base())
	if err != nil {
		t.Fatal(err)
	}
	boxes, half := boxesOf(disk.Files())
	if len(half) > 0 {
		t.Fatalf("%q are visible and no messages", half)
	}
	for id, in := range boxes {
		if strings.Contains(id, "-codex-") {
			boxes[id] = strings.Replace(in, "codex/dead_letter ", "", 1)
		}
	}
	maps.DeleteFunc(boxes, func(_, in string) bool { return in == "" })
	return boxes
}

// cutPower copies the image as it is, without what the file system has not written yet, and mounts the copy in its place.
func (b *btrfs) cutPower(t *testing.T) {
	t.Helper()
	old := b.image()
	b.images++
	if err := copySparse(b.image(), old); err != nil {
		t.Fatal(err)
	}
	b.unmount(t) // two images of one file system cannot be mounted at once
	if err := os.Remove(old); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mount", "-o", "loop", b.image(), b.mounted).CombinedOutput(); err != nil {
		t.Fatalf("mounting the copy: %v: %s", err, out)
	}
}

// copySparse copies a file and leaves out its holes.
func copySparse(to, from string) (err error) {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	target, err := os.Create(to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	info, err := source.Stat()
	if err != nil {
		return err
	}
	for end := int64(0); ; {
		start, err := unix.Seek(int(source.Fd()), end, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return target.Truncate(info.Size())
		}
		if err == nil {
			end, err = unix.Seek(int(source.Fd()), start, unix.SEEK_HOLE)
		}
		if err == nil {
			_, err = io.Copy(io.NewOffsetWriter(target, start), io.NewSectionReader(source, start, end-start))
		}
		if err != nil {
			return err
		}
	}
}

// recovered recovers the workspace, and returns where its messages are.
func (b *btrfs) recovered(t *testing.T) map[string]string {
	t.Helper()
	if err := (&cutTest{}).recover(t, b.base()); err != nil {
		t.Fatal(err)
	}
	return b.boxes(t)
}

// check checks where messages are after a cut: where they were before the command or, if it was killed, where it puts them.
//
// A new message is nowhere, or sent.
func (b *btrfs) check(t *testing.T, what, target string, doing cutOperation, before, found map[string]string) {
	t.Helper()
	for _, id := range slices.Sorted(maps.Keys(before)) {
		want := []string{before[id]}
		if id == target || strings.HasPrefix(doing.line, "run") && strings.Contains(before[id], inInbox) {
			moved := "claude/outbox " + doing.to
			want = append(want, moved, union(before[id], moved))
		}
		if !slices.Contains(want, found[id]) {
			t.Errorf("%s: %s is in %q, want it in one of %q", what, id, found[id], want)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(found)) {
		if before[id] != "" {
			continue
		}
		if !doing.answers || found[id] != "claude/inbox codex/outbox " && found[id] != "codex/dead_letter " {
			t.Errorf("%s: %s is in %q, want it nowhere", what, id, found[id])
		}
	}
}
