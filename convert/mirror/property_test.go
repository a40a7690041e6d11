package mirror

import (
	"fmt"
	"slices"
	"testing"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/convert"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// FuzzMirrorConverges runs a script in which agents write into mailboxes and into the log, mirrors
// run in all directions, and acknowledge and forget, and checks that in the end each thing is in
// both places once.
func FuzzMirrorConverges(f *testing.F) {
	for _, script := range []string{"", "smr", "ssssmss", "rrrrmrr", "rsrsorsi", "wdwdmfm", "srfmsrfmaf", "bwsrdmdmbf", "xxxm", "xyxmfmyxfo", "ysxwmxfom"} {
		f.Add(script)
	}
	f.Fuzz(func(t *testing.T, script string) {
		if len(script) > 40 {
			return
		}
		p := newPlace(t, "claude", "codex", "gemini")
		var messages []*schema.Message
		var born []bridge.Record
		repeated, dead := 0, 0
		for i, step := range []byte(script) {
			switch step {
			case 's', 'w': // a message; with w the same words again and again
				m := message(schema.TaskRequest)
				m.ID = schema.ID(fmt.Sprintf("msg-20260313T1430Z-claude-%04d", i))
				m.Subject, m.Body = "words", schema.TextValue("words")
				if step == 's' {
					m.To = append(m.To, "gemini")
					m.Body = schema.TextValue(fmt.Sprint(i))
				}
				messages = append(messages, p.send(m))
			case 'r', 'd', 'b': // a record with an id of AgentPair's, one with the documented id, a broadcast
				r := record(bridge.TypeTask, "", "claude", "codex", "words")
				switch step {
				case 'r':
					r.ID = bridge.GenerateID("", "", "", fmt.Sprint(i))
				case 'b':
					r.To, r.Content = "", fmt.Sprint(i)
					r.ID = bridge.GenerateID(r.Type, r.From, r.To, r.Content)
				}
				before := len(p.records())
				if p.append(r); len(p.records()) > before {
					born = append(born, r)
				}
			case 'x', 'y': // a record that shares its id, which is not a hash; some have the same content
				r := record(bridge.TypeTask, "", "claude", "codex", fmt.Sprint(step, i%3))
				r.ID = "shared-" + string(step)
				line, err := r.Encode()
				if err != nil {
					t.Fatal(err)
				}
				p.write(string(line))
				first := slices.IndexFunc(born, func(b bridge.Record) bool { return b.ID == r.ID })
				same := slices.ContainsFunc(born, func(b bridge.Record) bool { return b.ID == r.ID && b.SaysTheSame(r) })
				switch {
				case same:
					repeated++
				case first >= 0:
					dead++
					born = append(born, r)
				default:
					born = append(born, r)
				}
			case 'm':
				p.run(Both)
			case 'o':
				p.run(Out)
			case 'i':
				p.run(In)
			case 'f':
				p.forget()
			case 'a':
				for _, e := range p.box("codex", mailbox.Inbox) {
					if err := p.workspace.Acknowledge(e); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		p.run(Both)
		carrying, plain := make(map[string]int), 0
		for _, r := range p.records() {
			if m, _ := convert.Carried(r); m != nil {
				carrying[string(m.ID)+" "+r.To]++
			} else {
				plain++
			}
		}
		for _, m := range messages {
			for _, to := range m.To {
				if got := carrying[string(m.ID)+" "+string(to)]; got != 1 {
					t.Errorf("message %s to %s is in the log %d times", m.ID, to, got)
				}
				delete(carrying, string(m.ID)+" "+string(to))
			}
		}
		if len(carrying) > 0 || plain != len(born)+repeated {
			t.Errorf("the log has %d records that were born there, want %d, and echoes %v", plain, len(born)+repeated, carrying)
		}
		if got, want := len(p.box("claude", mailbox.Outbox)), len(messages)+len(born)-dead; got != want {
			t.Errorf("the outbox has %d messages, want %d", got, want)
		}
		if got := len(p.box("claude", mailbox.DeadLetters)); got != dead {
			t.Errorf("there are %d dead letters, want %d", got, dead)
		}
		want := p.snapshot()
		p.forget()
		p.run(Both)
		if d := diff(p.snapshot(), want); d != "" {
			t.Errorf("a run that remembers nothing changed something:\n%s", d)
		}
	})
}
