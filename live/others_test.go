package live

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oacp-go/oacp/schema"
)

// beginTwo begins two idle sessions, each in its own process.
func (h *hooks) beginTwo() {
	h.Helper()
	for _, s := range []string{"one", "two"} {
		h.programs[s] = startProgram(h)
		h.on(s, SessionStart)
	}
}

// TestOneOfTwoSessions checks which events show a message to another session, when one session of claude was shown it.
func TestOneOfTwoSessions(t *testing.T) {
	for _, test := range []struct {
		name string
		// events are those of the first session after it was shown the message.
		events string
		// event is that of the second session.
		event string
		// killed reports whether the first session dies before, and shows whether the second one then names the message.
		killed, shows bool
		// seen reports whether the second one is told that an earlier session has noticed it.
		seen bool
	}{
		{"a wake", "", Stop, false, false, false},
		{"a tool call", "", PostToolUse, false, false, false},
		{"a prompt", "", UserPromptSubmit, false, false, false},
		{"a start", "", SessionStart, false, false, false},
		{"noticed", "UserPromptSubmit Stop", Stop, false, false, false},
		{"killed", "UserPromptSubmit", Stop, true, true, false},
		{"killed, a tool call", "", PostToolUse, true, true, false},
		{"noticed and killed", "UserPromptSubmit Stop", SessionStart, true, false, true},
		{"noticed and killed, a prompt", "UserPromptSubmit Stop", UserPromptSubmit, true, false, true},
		{"noticed and killed, a tool call", "UserPromptSubmit Stop", PostToolUse, true, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHooks(t, Claude)
				h.beginTwo()
				h.arrive(h.ask("m001"), h.tell("m002"))
				h.wantNamed(h.on("one", FileChanged), "m001", "m002")
				for _, event := range strings.Fields(test.events) {
					h.wantNamed(h.on("one", event))
				}
				if test.killed {
					kill(h.programs["one"])
				}
				text := h.on("two", test.event)
				if got := slices.Equal(named(text), []string{"m001", "m002"}); got != test.shows {
					t.Errorf("it shows the messages: %t, want %t:\n%s", got, test.shows, text)
				}
				if got := strings.Contains(text, "owe"); got != (test.seen && test.event == SessionStart) {
					t.Errorf("it names what the agent owes: %t:\n%s", got, text)
				}
				if got := strings.Contains(text, "\n2 that you have seen: oacp inbox\n") || strings.HasPrefix(text, "2 that"); got != test.seen {
					t.Errorf("it tells what was seen: %t, want %t:\n%s", got, test.seen, text)
				}
				if again := h.on("two", UserPromptSubmit); test.seen && again != "" {
					t.Errorf("it tells so again:\n%s", again)
				}
			})
		})
	}
}

// TestWaitsForOther checks that the hook of an idle session waits while another session that was offered mail may die, that
// only one hook waits, and that it ends if there is nothing to wait for.
func TestWaitsForOther(t *testing.T) {
	for name, test := range map[string]struct {
		meanwhile func(h *hooks)
		want      []string
		after     time.Duration
	}{
		"killed":       {func(h *hooks) { kill(h.programs["one"]) }, []string{"m001"}, heldAgain},
		"noticed":      {func(h *hooks) { h.on("one", UserPromptSubmit); h.on("one", Stop) }, nil, heldAgain},
		"acknowledged": {func(h *hooks) { h.leave("m001") }, nil, heldAgain},
		"ended":        {func(h *hooks) { h.on("two", SessionEnd) }, nil, heldAgain},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHooks(t, Claude)
				h.beginTwo()
				h.arrive(h.ask("m001"))
				h.wantNamed(h.on("one", FileChanged), "m001")
				began, texts := time.Now(), make(chan string)
				for range 3 {
					go func() {
						text := h.on("two", FileChanged)
						if waited := time.Since(began); waited > collect && waited != test.after && waited != test.after+burst {
							t.Errorf("a hook took %v", waited)
						}
						texts <- text
					}()
				}
				h.wantNamed(<-texts)
				h.wantNamed(<-texts)
				test.meanwhile(h)
				h.wantNamed(<-texts, test.want...)
				if name == "ended" {
					if _, err := findSession(h.Workspace, h.Agent, "two"); err == nil {
						t.Error("the hook of a session that has ended began it again")
					}
				}
			})
		})
	}
}

// TestIdleBeforeBusy checks that a new file wakes the idle one of two sessions, whichever hook is first.
func TestIdleBeforeBusy(t *testing.T) {
	for _, order := range [][]string{{"one", "two"}, {"two", "one"}} {
		synctest.Test(t, func(t *testing.T) {
			h := newHooks(t, Claude)
			h.beginTwo()
			h.on("one", UserPromptSubmit)
			h.arrive(h.ask("m001"))
			got := make(map[string]chan []string)
			for _, s := range order {
				answer := make(chan []string, 1)
				go func() { answer <- named(h.on(s, FileChanged)) }()
				got[s] = answer
				time.Sleep(burst)
			}
			if names := <-got["two"]; !slices.Equal(names, []string{"m001"}) {
				t.Errorf("%q were shown to the idle session", names)
			}
			h.on("two", UserPromptSubmit)
			h.on("two", Stop)
			if names := <-got["one"]; names != nil {
				t.Errorf("%q were shown to the busy session", names)
			}
		})
	}
}

// TestCeiling lets 100 messages come in 20 seconds while claude works. The digests cost defaultBudget in a minute, each
// message is named once, and few hooks wake the session.
func TestCeiling(t *testing.T) {
	for name, tool := range map[string]time.Duration{"tools": 2 * time.Second, "a long request": time.Hour, "short turns": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHooks(t, Claude)
				h.on("s", SessionStart)
				h.on("s", UserPromptSubmit)
				var texts []string
				wakes, ended := 0, make(chan string, 200)
				note := func(text string) {
					if text != "" {
						texts = append(texts, text)
					}
				}
				begin, worked := time.Now(), time.Duration(0)
				for elapsed := time.Duration(0); elapsed < 5*time.Minute; elapsed = time.Since(begin) {
					if n := int(elapsed / (200 * time.Millisecond)); n < 100 {
						h.arriveNow(h.ask(fmt.Sprintf("m%03d", n)))
						go func() { ended <- h.on("s", FileChanged) }()
					}
					time.Sleep(200 * time.Millisecond)
					synctest.Wait()
					for len(ended) > 0 {
						if text := <-ended; text != "" {
							wakes++
							note(text)
							if !h.state("s").Working {
								text, _ := h.handle(Event{Name: UserPromptSubmit, Session: "s", Prompt: "<task-notification>"})
								note(shown(t, UserPromptSubmit, text))
							}
						}
					}
					if worked += 200 * time.Millisecond; worked >= tool && tool > 0 {
						worked = 0
						note(h.on("s", PostToolUse))
					}
					if tool == 0 && h.state("s").Working {
						note(h.on("s", Stop))
					}
				}
				var all []string
				tokens := 0
				for _, text := range texts {
					all = append(all, named(text)...)
					tokens += Tokens(text)
				}
				if slices.Sort(all); len(all) != 100 || len(slices.Compact(slices.Clone(all))) != 100 {
					t.Errorf("%d messages were named, want each of 100 once: %q", len(all), all)
				}
				t.Logf("%d digests, %d wakes, %d tokens", len(texts), wakes, tokens)
				if tokens > 3500 || wakes > 10 {
					t.Errorf("%d digests in %d wakes cost %d tokens, want less", len(texts), wakes, tokens)
				}
			})
		})
	}
}

// TestCeilingOfCodex lets 60 messages come in 10 seconds and rings an idle codex for each: the digests of a minute cost
// defaultBudget, and the follower does not ring while there is no room for the mail.
func TestCeilingOfCodex(t *testing.T) {
	t.Parallel()
	h := newHooks(t, Codex)
	h.on("s", SessionStart)
	tokens, names := 0, 0
	ring := func() {
		a, err := h.handle(Event{Name: UserPromptSubmit, Session: "s", Prompt: ringText(1, h.Agent)})
		text := shown(t, UserPromptSubmit, a)
		if err != nil {
			t.Fatal(err)
		}
		tokens, names = tokens+Tokens(text), names+len(named(text))
		h.on("s", Stop)
	}
	for n := range 60 {
		m := h.tell(fmt.Sprintf("m%03d", n))
		m.Priority, m.Body = schema.P1, schema.TextValue(strings.Repeat("A line of the body.\n", 40))
		h.arrive(m)
		h.now = h.now.Add(time.Second / 6)
		ring()
	}
	if names == 0 || names == 60 || tokens > defaultBudget {
		t.Errorf("%d messages were named for %d tokens", names, tokens)
	}
	f := &follower{hook: h.Hook, id: "s", state: h.state("s")}
	if files, err := f.unshown(t.Context()); err != nil || len(files) > 0 {
		t.Errorf("it rings for %d files (%v) in the same minute", len(files), err)
	}
	h.now = h.now.Add(defaultPace)
	if files, err := f.unshown(t.Context()); err != nil || len(files) != 60-names {
		t.Errorf("a minute later it rings for %d files (%v), want %d", len(files), err, 60-names)
	}
	before := names
	tokens = 0
	if ring(); names == before || tokens > defaultBudget {
		t.Errorf("the ring a minute later names %d messages for %d tokens", names-before, tokens)
	}
}

// TestHeadline checks the line that the program shows its user.
func TestHeadline(t *testing.T) {
	t.Parallel()
	h := newHooks(t, Claude)
	h.on("s", SessionStart)
	h.arrive(h.ask("m001"))
	digest := h.on("s", FileChanged)
	for _, test := range []struct{ name, event, prompt, want string }{
		{"a wake", UserPromptSubmit, "<task-notification>\n</task-notification>\nStop hook blocking error from command \"FileChanged\": " + digest, `"oacp: m001 question P2 from codex, 60s: Question m001"`},
		{"a prompt", UserPromptSubmit, "Why did you say\n" + digest, ""},
		{"another notification", UserPromptSubmit, "<task-notification>\n- a task has ended", ""},
		{"an owed answer", Stop, "", `"oacp: an answer is owed: m001 question P2 from codex, 60s: Question m001"`},
		{"no prompt", Stop, "", ""},
	} {
		a, err := h.handle(Event{Name: test.event, Session: "s", Prompt: test.prompt})
		if text := shown(t, test.event, a); err != nil || len(named(text)) > 0 || !strings.Contains(string(a.Stdout), test.want) || test.want == "" && len(a.Stdout) > 0 {
			t.Errorf("%s: the hook says %s (%v), want only %s for the person", test.name, a.Stdout, err, test.want)
		}
	}
	h.arrive(h.ask("m002"), h.ask("m003"))
	a, err := h.handle(Event{Name: Stop, Session: "s"})
	if want := `"systemMessage":"oacp: m002 question P2 from codex, 60s: Question m002; 1 more"`; err != nil || !strings.Contains(string(a.Stdout), want) {
		t.Errorf("with two messages the hook says %s (%v), want %s", a.Stdout, err, want)
	}
}

// TestBusyOnce checks that a busy session is woken once a minute, in case its turn was interrupted.
func TestBusyOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHooks(t, Claude)
		h.on("s", SessionStart)
		h.on("s", UserPromptSubmit)
		began := time.Now()
		for n := range 3 {
			name := fmt.Sprintf("m00%d", n)
			h.arriveNow(h.ask(name))
			h.wantNamed(h.on("s", FileChanged), name)
			h.wantNamed(h.on("s", FileChanged)) // which is over at once
			if waited := time.Since(began); waited < time.Duration(n)*defaultPace || waited > time.Duration(n)*defaultPace+collect {
				t.Errorf("wake %d comes after %v", n, waited)
			}
		}
	})
}
