package doctor

import "testing"

func FuzzConfig(f *testing.F) {
	for _, seed := range []string{
		"autonomy: {default_mode: always_pause}\nrun: {autonomy: auto}\n",
		"autonomy:\n  auto_review_thresholds: {max_estimated_minutes: -1, destructive_ops: [pause]}\n  continuation_grants: {enabled: 1}\n",
		"autonomy: {1: 2, private_repo_allowlist: [a/b, 3, ~], allow_without_task_profile: {a: b}}\n",
		"autonomy: &a [*a]\nrun: [auto]\n",
		"run: {autonomy: {auto: 1}}\nautonomy: {default_mode: [auto]}\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, problem := range configProblems(data) {
			if problem == "" {
				t.Error("a problem has no words")
			}
		}
	})
}
