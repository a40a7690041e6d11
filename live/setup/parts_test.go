package setup

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"

	"github.com/oacp-go/oacp/internal/guide"
	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/live"
)

var settingsSeeds = flag.Uint64("settings-seeds", 100, "how many random settings TestPartsInAnySettings makes")

// settingsParts are the parts that are written into JSON.
func settingsParts() []part {
	return []part{
		hooks{live.Claude, "oacp hook claude --agent claude"}, permissions{},
		server{[]string{"projects", "/home/ann/project", "mcpServers", "oacp"}, callOfMCP("oacp", fromEnvironment+"claude}")},
	}
}

// A writer writes random settings in an odd form.
type writer struct {
	*rand.Rand
	strings.Builder
}

func (w *writer) space() {
	for range w.IntN(3) {
		w.WriteString([]string{" ", "\n", "\t", "\r\n  ", "  "}[w.IntN(5)])
	}
}

// list writes what is between brackets, with a comma between its parts.
func (w *writer) list(open, end string, n int, each func(i int)) {
	w.WriteString(open)
	for i := range n {
		if i > 0 {
			w.WriteString(",")
		}
		w.space()
		each(i)
		w.space()
	}
	w.space()
	w.WriteString(end)
}

func (w *writer) member(name string, value func()) {
	fmt.Fprintf(w, "%q", name)
	w.space()
	w.WriteString(":")
	w.space()
	value()
}

func (w *writer) any(depth int) {
	switch kind := w.IntN(6); {
	case kind == 0 && depth > 0:
		w.list("{", "}", w.IntN(3), func(i int) { w.member(fmt.Sprintf("key%d", i), func() { w.any(depth - 1) }) })
	case kind == 1 && depth > 0:
		w.list("[", "]", w.IntN(3), func(int) { w.any(depth - 1) })
	default:
		w.WriteString([]string{"null", "true", "1e400", `"<&>\u00e9\ud83d\ude00"`, `""`, "-0.0", "12345678901234567890"}[w.IntN(7)])
	}
}

// hook writes a hook of another program, or now and then something that is not a hook.
func (w *writer) hook() {
	if w.IntN(5) == 0 {
		w.any(2)
		return
	}
	w.list("{", "}", 2, func(i int) {
		w.member([]string{"type", "command"}[i], func() {
			w.WriteString([]string{`"command"`, `"oacp hook codex"`, `"echo oacp hook claude"`, `"my-oacp hook claude"`, `"'"`}[w.IntN(5)])
		})
	})
}

// settings writes a file whose objects and arrays that oacp uses have something in them.
func (w *writer) settings() {
	w.space()
	w.list("{", "}", 5, func(i int) {
		switch i {
		case 1:
			w.member("hooks", func() {
				w.list("{", "}", 1+w.IntN(3), func(i int) {
					w.member([]string{"Stop", "PreToolUse", "SessionStart"}[i], func() {
						w.list("[", "]", 1+w.IntN(2), func(int) {
							w.list("{", "}", 2, func(i int) {
								if i == 0 {
									w.member("matcher", func() { w.any(0) })
									return
								}
								w.member("hooks", func() { w.list("[", "]", 1+w.IntN(2), func(int) { w.hook() }) })
							})
						})
					})
				})
			})
		case 3:
			w.member("permissions", func() {
				w.list("{", "}", 1, func(int) { w.member("allow", func() { w.list("[", "]", 1+w.IntN(2), func(int) { w.any(1) }) }) })
			})
		case 4:
			w.member("projects", func() { w.list("{", "}", 1, func(int) { w.member("/home/ann", func() { w.any(3) }) }) })
		default:
			w.member(fmt.Sprintf("other%d", i), func() { w.any(3) })
		}
	})
	w.space()
}

// TestPartsInAnySettings writes each part into random settings twice and takes it out: the second
// time changes nothing, and in the end the file has the values of the beginning, in their order.
func TestPartsInAnySettings(t *testing.T) {
	for seed := range *settingsSeeds {
		w := &writer{Rand: rand.New(rand.NewPCG(seed, 1))}
		w.settings()
		before := []byte(w.String())
		after := before
		for _, p := range settingsParts() {
			once := must(t, p.put, after)
			if twice := must(t, p.put, once); !bytes.Equal(once, twice) {
				t.Fatalf("seed %d: the second time changes the file\n%s\nto\n%s", seed, once, twice)
			}
			if !holds(p, once) || holds(p, after) {
				t.Fatalf("seed %d: is it there? before: %v, after: %v", seed, holds(p, after), holds(p, once))
			}
			if !json.Valid(once) {
				t.Fatalf("seed %d: not JSON: %s", seed, once)
			}
			if back := must(t, p.take, once); compact(t, back) != compact(t, after) {
				t.Fatalf("seed %d: taken out again, %s of\n%q\nleaves\n%q", seed, p.name(), after, back)
			}
			after = once
		}
		for _, p := range settingsParts() {
			after = must(t, p.take, after)
		}
		if compact(t, before) != compact(t, after) {
			t.Fatalf("seed %d: before\n%s\nafter\n%s", seed, before, after)
		}
	}
}

// compact returns JSON without white space.
func compact(t *testing.T, data []byte) string {
	t.Helper()
	var text bytes.Buffer
	if err := json.Compact(&text, data); err != nil {
		t.Fatalf("%v in\n%s", err, data)
	}
	return text.String()
}

func must(t *testing.T, change func([]byte) ([]byte, error), data []byte) []byte {
	t.Helper()
	after, err := change(data)
	if err != nil {
		t.Fatalf("%v in\n%s", err, data)
	}
	return after
}

// FuzzSettings checks that settings of any form are refused or keep their meaning.
func FuzzSettings(f *testing.F) {
	for _, text := range []string{"", "{}", " {\n}\n", `{"hooks":{"Stop":[{"hooks":[]}]}}`, `{"hooks":{"Stop":[]},"permissions":{"allow":[]}}`, `{"a":1,"a":2}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, before []byte) {
		for _, p := range settingsParts() {
			once, err := p.put(before)
			if err != nil {
				if after, err := p.take(before); err == nil && !bytes.Equal(before, after) && !holds(p, before) {
					t.Errorf("%s takes something of others:\n%q\n%q", p.name(), before, after)
				}
				continue
			}
			if !json.Valid(once) {
				t.Errorf("%s: not JSON: %s", p.name(), once)
			}
			if twice := must(t, p.put, once); !bytes.Equal(once, twice) {
				t.Errorf("%s: the second time changes the file\n%s\nto\n%s", p.name(), once, twice)
			}
			left := must(t, p.take, once)
			if holds(p, left) {
				t.Errorf("%s: still there:\n%s", p.name(), left)
			}
			if !holds(p, before) && !reflect.DeepEqual(meaning(before), meaning(left)) {
				t.Errorf("%s: before\n%s\nafter\n%s", p.name(), before, left)
			}
		}
	})
}

// meaning decodes settings and leaves out what is empty, because nothing tells an empty object of
// others from one that was made for a part.
func meaning(data []byte) any {
	var all any
	if len(bytes.TrimSpace(data)) == 0 {
		return map[string]any{}
	}
	if json.Unmarshal(data, &all) != nil {
		return nil
	}
	all, _ = filled(all)
	return all
}

func filled(v any) (any, bool) {
	switch v := v.(type) {
	case map[string]any:
		for name, below := range v {
			if kept, ok := filled(below); ok {
				v[name] = kept
			} else {
				delete(v, name)
			}
		}
		return v, len(v) > 0
	case []any:
		return v, len(v) > 0
	}
	return v, true
}

// FuzzTable does for config.toml what FuzzSettings does for JSON.
func FuzzTable(f *testing.F) {
	for _, text := range []string{
		"", "a = 1", "[mcp_servers]\n", "[mcp_servers.other]\ncommand = \"x\"\r\n", "mcp_servers.other.command = 'x'\n",
		"a = '''\n" + tableMark + "\n" + tableHeader + "\n'''\n", "[[a]]\nb = 1\n[[a]]\n# end", "mcp_servers = {}\n", "[mcp_servers.oacp.tools.x]\na = 1\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, before []byte) {
		p := table{mcpCall{"oacp", []string{"mcp", "--agent", "codex"}}}
		once, err := p.put(before)
		if err != nil || holds(p, before) {
			return
		}
		if twice := must(t, p.put, once); !bytes.Equal(once, twice) {
			t.Errorf("the second time changes the file\n%s\nto\n%s", once, twice)
		}
		left, err := p.take(once)
		if err != nil {
			return
		}
		if len(bytes.TrimSpace(before)) > 0 && !bytes.Equal(bytes.TrimRight(before, "\r\n"), bytes.TrimRight(left, "\r\n")) {
			t.Errorf("before\n%q\nafter\n%q", before, left)
		}
		p.Args[2] = "reviewer"
		changed, err := p.put(once)
		var all map[string]any
		if tomlErr := toml.Unmarshal(changed, &all); err == nil && (tomlErr != nil || !strings.Contains(string(changed), "reviewer")) {
			t.Errorf("with another agent: %v\n%s", tomlErr, changed)
		}
	})
}

// TestSection checks where the section goes in instructions of several forms, and that it leaves
// them as they were.
func TestSection(t *testing.T) {
	text := fmt.Sprintf(sectionText, " claude")
	ours := section{live.Claude}
	for before, want := range map[string]string{
		"":            text,
		"# Rules\n":   "# Rules\n\n" + text,
		"# Rules\r\n": "# Rules\r\n\r\n" + strings.ReplaceAll(text, "\n", "\r\n"),
		"A\n\n" + sectionBegin + " -->\nold\n" + sectionEnd + "\nB\n": "A\n\n" + text + "B\n",
	} {
		once := must(t, ours.put, []byte(before))
		if string(once) != want {
			t.Errorf("%q becomes\n%q\nwant\n%q", before, once, want)
		}
		both := must(t, section{live.Codex}.put, once)
		if left := must(t, section{live.Codex}.take, both); bytes.Equal(both, once) || !bytes.Equal(left, once) {
			t.Errorf("of the section of claude and codex\n%s\nwithout codex is left\n%s", both, left)
		}
		if left := must(t, section{live.Codex}.take, once); !bytes.Equal(left, once) {
			t.Errorf("without codex, the section of claude becomes\n%s", left)
		}
		if left := must(t, ours.take, once); !strings.Contains(before, "oacp") && string(left) != before {
			t.Errorf("removed from %q it leaves %q", before, left)
		}
	}
}

// TestAllowedCommands checks that claude may run the commands that a digest and the page for agents name and that neither
// send files nor undo anything, and no others.
func TestAllowedCommands(t *testing.T) {
	text, again := check.ReadFile(t, "../testdata/digest-greeting.txt"), check.ReadFile(t, "../testdata/digest-question.txt")
	if greeting := "You are oacp agent"; !strings.HasPrefix(text, greeting) || !strings.Contains(guide.Agent, `"`+greeting) {
		t.Errorf("the page for agents does not say what an agent may skip that a hook has greeted: %s", text)
	}
	var named []string
	for _, match := range regexp.MustCompile("(?m)(?:^    |[`(;:,] ?)oacp ([a-z]+)").FindAllStringSubmatch(guide.Agent+text+again, -1) {
		switch match[1] {
		case "next": // a session needs no waiting
		case "commit", "restore", "send", "thread": // claude asks before these
		default:
			named = append(named, match[1])
		}
	}
	slices.Sort(named)
	if named = slices.Compact(named); !slices.Equal(named, allowed) {
		t.Errorf("the texts name %q, claude may run %q", named, allowed)
	}
}

// TestAllowedIsDocumented checks that docs/live.md names each command that claude may run without asking.
func TestAllowedIsDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/live.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(text), "and the commands `oacp ")
	list, _, _ = strings.Cut(list, " with all flags")
	named := strings.FieldsFunc(strings.ReplaceAll(list, " and ", ", "), func(r rune) bool { return strings.ContainsRune("`, ", r) })
	slices.Sort(named)
	if !slices.Equal(named, allowed) {
		t.Errorf("docs/live.md names %q, setup allows %q", named, allowed)
	}
}
