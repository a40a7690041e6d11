package schema

import (
	"strings"
	"testing"
	"time"
)

func TestParseFileName(t *testing.T) {
	minute, second := testTime, testTime.Add(7*time.Second)
	tests := []struct {
		name string
		want FileName
	}{
		{"20260313T1430Z_claude_task_request.yaml", FileName{minute, "claude", TaskRequest, "", ""}},
		{"20260313T1430Z_claude_task_request_a8f3.yaml", FileName{minute, "claude", TaskRequest, "a8f3", ""}},
		{"20260313T1430Z_claude_task_request_0123456789.yaml", FileName{minute, "claude", TaskRequest, "0123456789", ""}},
		{"20260313143007_claude_task_request_9f8e.yaml", FileName{second, "claude", TaskRequest, "9f8e", ""}},
		{"20260313143007_claude_task_request_9f8e_fix-it_2.yaml", FileName{second, "claude", TaskRequest, "9f8e", "fix-it_2"}},
		{"20260313T143007Z_claude_question_9f8e.yaml", FileName{second, "claude", Question, "9f8e", ""}},
		{"20260313T1430Z_claude_code_2_handoff_complete.yaml", FileName{minute, "claude_code_2", HandoffComplete, "", ""}},
		{"20260313T1430Z_claude_handoff_handoff_complete.yaml", FileName{minute, "claude_handoff", HandoffComplete, "", ""}},
		{"20260313T1430Z_a_task_request_question.yaml", FileName{minute, "a_task_request", Question, "", ""}},
		{"20260313T1430Z_a_question_handoff_a8f3.yaml", FileName{minute, "a_question", Handoff, "a8f3", ""}},
		{"20260313T1430Z_a.b-c_follow_up.yaml", FileName{minute, "a.b-c", FollowUp, "", ""}},
		{"20260313143007_a_follow_up_9f8e_task_request.yaml", FileName{second, "a_follow_up_9f8e", TaskRequest, "", ""}},
	}
	for _, test := range tests {
		if got, err := ParseFileName(test.name); err != nil || got != test.want {
			t.Errorf("ParseFileName(%q) = %+v, %v; want %+v", test.name, got, err, test.want)
		}
	}
	for _, name := range []string{
		"", ".yaml", "x.yaml", "20260313T1430Z.yaml", "20260313T1430Z_.yaml", "20260313T1430Z_claude.yaml", "20260313T1430Z_claude_message.yaml",
		"20260313T1430Z_task_request.yaml", "20260313T1430Z__task_request.yaml", "20260313T1430Z_-x_task_request.yaml",
		"20260313T1430Z_claude_task_request.yml", "20260313T1430Z_claude_task_request.yaml.bak", "20260313T1430Z_claude_task_request.YAML",
		"20260313T1430Z_claude_task_request_a.b.yaml", "20260313T1430Z_claude_task_request_.yaml", "20260313T1430Z_claude_task_request-2.yaml",
		"2026-03-13T14:30:00Z_claude_task_request.yaml", "20260231T1430Z_claude_task_request.yaml", "T_claude_task_request.yaml",
		"20260313T1430Z_" + strings.Repeat("a", 65) + "_question.yaml", "../20260313T1430Z_claude_question.yaml",
	} {
		if got, err := ParseFileName(name); err == nil || got != (FileName{}) {
			t.Errorf("ParseFileName(%q) = %+v, want it refused", name, got)
		}
	}
}

func TestIsMessageFile(t *testing.T) {
	for name, want := range map[string]bool{
		"a.yaml": true, "20260313T1430Z_claude_question.yaml": true,
		".a.yaml": false, ".yaml": false, "a.yml": false, "a.yaml.tmp-12-abcdef": false, "a.YAML": false, "yaml": false, "": false,
	} {
		if got := IsMessageFile(name); got != want {
			t.Errorf("IsMessageFile(%q) = %t, want %t", name, got, want)
		}
	}
}

// FuzzFileName checks that both names made for a message are read back. The rands that NewID makes
// cannot be taken for a type.
func FuzzFileName(f *testing.F) {
	f.Add("claude", uint8(0), "a8f3", int64(1773412200))
	f.Add("a_task_request", uint8(1), "0123456789", int64(0))
	f.Add("x_handoff", uint8(5), "abcd", int64(1))
	f.Add("review_lgtm_ab12", uint8(9), "lgtm", int64(1))
	f.Fuzz(func(t *testing.T, sender string, kind uint8, rand string, seconds int64) {
		at := time.Unix(seconds, 0).UTC()
		if !AgentName(sender).Valid() || at.Year() < 0 || at.Year() > 9999 || !isRand(rand) || strings.ContainsAny(rand, "-_") || len(rand) != ShortRand && len(rand) != LongRand {
			return
		}
		m := Message{From: AgentName(sender), Type: types[int(kind)%len(types)], CreatedAt: NewTimestamp(at)}
		m.ID = ID("msg-" + at.Format(compactMinute) + "-" + sender + "-" + rand)
		want := FileName{At: at.Truncate(time.Minute), From: m.From, Type: m.Type}
		if got, err := ParseFileName(m.FileName()); err != nil || got != want {
			t.Errorf("%q reads as %+v (%v), want %+v", m.FileName(), got, err, want)
		}
		long, err := m.LongFileName()
		if err != nil {
			t.Fatal(err)
		}
		want.Rand = rand
		if got, err := ParseFileName(long); err != nil || got != want {
			t.Errorf("%q reads as %+v (%v), want %+v", long, got, err, want)
		}
	})
}
