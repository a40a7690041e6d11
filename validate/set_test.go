package validate

import "testing"

// TestSetRules checks that a caller may report files by rules of its own. They are errors.
func TestSetRules(t *testing.T) {
	s := NewSet(nil)
	s.AddUnreadable("a.yaml", "in-quarantine", "the file is in quarantine", "release it")
	s.AddUnreadable("b.yaml", RuleRemoved, "the message is gone", "")
	files := s.Result().Files
	for i, want := range []Severity{Error, Warning} {
		if found := files[i].Diagnostics; len(found) != 1 || found[0].Severity != want {
			t.Errorf("file %d: %v, want one %s", i, found, want)
		}
	}
}
