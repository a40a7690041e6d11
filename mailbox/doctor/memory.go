package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/internal/spelling"
)

// memoryMarker is the file that says that the memory in a home is kept in git.
const memoryMarker = ".oacp-memory-repo"

// memoryPatterns are the lines of the .gitignore of such a home: git sees memory and nothing else.
var memoryPatterns = []string{
	"*", "!*/", "!.gitignore", "!" + memoryMarker, "!org-memory/**", "!projects/*/memory/**", "projects/*/memory/.cache/", "keys/",
}

const (
	// staleMemory is how old the last commit of memory may be.
	staleMemory = 7 * 24 * time.Hour
	// fetchTimeout bounds how long git may take to reach another machine, and gitTimeout the rest.
	fetchTimeout = 30 * time.Second
	gitTimeout   = 5 * time.Second
)

// memory inspects the memory of a home.
type memory struct {
	inspection
	ctx  context.Context
	home string
}

// Memory reports whether git keeps the memory in a home of projects, and whether the repository is in
// step with its remote. The reference implementation's command memory sets that up. Memory fetches
// from the remote, and changes nothing else.
func Memory(ctx context.Context, home string, now time.Time) []Finding {
	m := &memory{inspection{Options: Options{Now: now}, category: categoryMemory}, ctx, home}
	m.inspect()
	return m.findings
}

func (m *memory) inspect() {
	if info, err := os.Stat(filepath.Join(m.home, memoryMarker)); err != nil || !info.Mode().IsRegular() {
		m.add("memory-marker", SeveritySkipped, "", "%s is not there: memory sync is not configured", memoryMarker)
		return
	}
	m.add("memory-marker", SeverityOK, "", "%s is present", memoryMarker)
	if _, err := m.git("rev-parse", "--is-inside-work-tree"); err != nil {
		m.add("memory-git", SeverityWarning, "remove "+memoryMarker+", or make a repository with git init", "%s is present, but %s is not a git repository: %v", memoryMarker, m.home, err)
		return
	}
	m.ignored()
	tracked, err := m.list()
	m.files("tracked-allowlist", tracked, err, func(name string) bool { return !isMemory(name) },
		"git rm --cached takes them out", "git keeps %s outside of memory: ", "git keeps memory and nothing else")
	m.files("agents-tracked", tracked, err, isAgents,
		"git rm --cached takes them out", "git keeps %s of agents, which belong to one machine: ", "git keeps no files of agents")
	untracked, err := m.list("--others", "--exclude-standard")
	m.files("untracked-memory", untracked, err, isMemory,
		"commit them", "git does not keep %s of memory yet: ", "git keeps all files of memory")
	m.synced()
	m.lastCommit()
	m.overlays()
}

// git runs git in the home and returns its output.
func (m *memory) git(args ...string) (string, error) {
	timeout := gitTimeout
	if args[0] == "fetch" {
		timeout = fetchTimeout
	}
	ctx, cancel := context.WithTimeoutCause(m.ctx, timeout, fmt.Errorf("no answer within %s", timeout))
	defer cancel()
	output, err := (&git.Repository{Dir: m.home}).Run(ctx, args...)
	return strings.TrimSpace(string(output)), err
}

// list returns the files that git lists. With -z, git does not quote names.
func (m *memory) list(args ...string) ([]string, error) {
	output, err := m.git(append([]string{"ls-files", "-z"}, args...)...)
	return strings.FieldsFunc(output, func(r rune) bool { return r == 0 }), err
}

// isMemory reports whether git may keep a file of a home.
func isMemory(name string) bool {
	if name == ".gitignore" || name == memoryMarker || strings.HasPrefix(name, "org-memory/") {
		return true
	}
	parts := strings.Split(name, "/")
	return len(parts) > 3 && parts[0] == "projects" && parts[2] == "memory" && parts[3] != ".cache"
}

// isAgents reports whether a file of a home is in the folder of an agent.
func isAgents(name string) bool {
	return strings.HasPrefix(name, "agents/") || strings.HasPrefix(name, "projects/") && strings.Contains(name, "/agents/")
}

// files warns about the files that are bad, if there are any or an error kept git from listing them.
// The text many has a verb for their number, and precedes the first three.
func (m *memory) files(name string, files []string, err error, bad func(string) bool, hint, many, none string) {
	if err != nil {
		m.add(name, SeverityWarning, "", "%v", err)
		return
	}
	files = slices.DeleteFunc(slices.Clone(files), func(name string) bool { return !bad(name) })
	if len(files) == 0 {
		m.add(name, SeverityOK, "", "%s", none)
		return
	}
	more := ""
	if len(files) > 3 {
		more = fmt.Sprintf(" and %d more", len(files)-3)
	}
	m.add(name, SeverityWarning, hint, "%s%s%s", fmt.Sprintf(many, spelling.Count(len(files), "file")), strings.Join(files[:min(3, len(files))], ", "), more)
}

// patterns returns the lines of a .gitignore below the home that are not comments.
func (m *memory) patterns(name string) (lines []string, err error) {
	root, err := durable.OpenRoot(m.home)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	data, err := durable.ReadFile(root, m.home, name, maxFileSize)
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			lines = append(lines, line)
		}
	}
	return lines, err
}

func (m *memory) ignored() {
	lines, err := m.patterns(".gitignore")
	hint := "its lines have to be: " + strings.Join(memoryPatterns, " ")
	switch {
	case err != nil:
		m.add("root-gitignore", SeverityWarning, hint, ".gitignore cannot be read: %v", err)
	case !slices.Equal(lines, memoryPatterns):
		m.add("root-gitignore", SeverityWarning, hint, ".gitignore does not let git see exactly the memory")
	default:
		m.add("root-gitignore", SeverityOK, "", ".gitignore lets git see memory and nothing else")
	}
}

// synced compares the repository with its remote.
func (m *memory) synced() {
	switch dirty, err := m.git("status", "--porcelain"); {
	case err != nil:
		m.add("working-tree", SeverityWarning, "", "%v", err)
		return
	case dirty != "":
		m.add("working-tree", SeverityWarning, "commit or discard them", "there are changes that are not committed")
	default:
		m.add("working-tree", SeverityOK, "", "everything is committed")
	}
	if remotes, err := m.git("remote"); err != nil || remotes == "" {
		m.add("sync-state", SeverityOK, "", "memory is kept on this machine only")
		m.add("remote", SeveritySkipped, "", "there is no remote")
		return
	}
	if _, err := m.git("fetch", "--quiet"); err != nil {
		m.add("sync-state", SeverityWarning, "", "cannot be found out: %v", err)
		m.add("remote", SeverityWarning, "check the network, and your access to the remote", "cannot be reached")
		return
	}
	m.distance()
	m.add("remote", SeverityOK, "", "can be reached")
}

// distance says how far the branch is from that of the remote.
func (m *memory) distance() {
	upstream, err := m.git("rev-parse", "--abbrev-ref", "--symbolic-full-name", "@{u}")
	if err != nil {
		m.add("sync-state", SeverityWarning, "git push -u REMOTE BRANCH sets it", "the branch follows no branch of the remote")
		return
	}
	counts, err := m.git("rev-list", "--left-right", "--count", "HEAD..."+upstream)
	var ahead, behind int
	if err == nil {
		_, err = fmt.Sscan(counts, &ahead, &behind)
	}
	switch {
	case err != nil:
		m.add("sync-state", SeverityWarning, "", "cannot be found out: %v", err)
	case ahead > 0 && behind > 0:
		m.add("sync-state", SeverityWarning, "merge by hand", "has diverged: %s here, %d at %s", spelling.Count(ahead, "commit"), behind, upstream)
	case behind > 0:
		m.add("sync-state", SeverityWarning, "git pull", "is %s behind %s", spelling.Count(behind, "commit"), upstream)
	case ahead > 0:
		m.add("sync-state", SeverityWarning, "git push", "is %s ahead of %s", spelling.Count(ahead, "commit"), upstream)
	default:
		m.add("sync-state", SeverityOK, "", "is in step with %s", upstream)
	}
}

func (m *memory) lastCommit() {
	output, err := m.git("log", "-1", "--format=%ct")
	if err != nil {
		m.add("last-commit", SeverityWarning, "commit the memory", "is missing: %v", err)
		return
	}
	seconds, err := strconv.ParseInt(output, 10, 64)
	if err != nil {
		m.fail("last-commit", err)
		return
	}
	age := m.Now.Sub(time.Unix(seconds, 0))
	days := spelling.Count(max(0, int(age.Hours()/24)), "day")
	if age > staleMemory {
		m.add("last-commit", SeverityWarning, "commit the memory", "is stale: %s old", days)
		return
	}
	m.add("last-commit", SeverityOK, "", "is %s old", days)
}

// overlays reports patterns in the .gitignore of a project's memory that name files outside it.
func (m *memory) overlays() {
	files, _ := fs.Glob(os.DirFS(m.home), "projects/*/memory/.gitignore") // the pattern is well-formed
	var escaping []string
	for _, name := range files {
		lines, err := m.patterns(name)
		if err != nil {
			m.add("memory-overlays", SeverityWarning, "", "%s: %v", name, err)
			return
		}
		for _, line := range lines {
			if pattern, negated := strings.CutPrefix(line, "!"); negated && slices.Contains(strings.Split(strings.ReplaceAll(pattern, `\`, "/"), "/"), "..") {
				escaping = append(escaping, name+": "+line)
			}
		}
	}
	m.files("memory-overlays", escaping, nil, func(string) bool { return true },
		"remove the patterns with ..", "%s with patterns that reach out of memory: ", "no .gitignore file of memory reaches out of it")
}
