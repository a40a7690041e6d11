package git

import "testing"

func TestPublicURL(t *testing.T) {
	for text, want := range map[string]string{
		"https://ann:secret@host/x.git":      "https://host/x.git",
		"https://token@host:8443/x?t=secret": "https://host:8443/x",
		"ssh://git@host:22/x.git":            "ssh://git@host:22/x.git",
		"ssh://git:secret@host/x.git":        "ssh://git@host/x.git",
		"git@host:x.git":                     "git@host:x.git",
		"/srv/x.git":                         "/srv/x.git",
		"file:///srv/x.git":                  "file:///srv/x.git",
		"https://ann:s%zzcret@host/x.git":    "https://(not a valid URL)",
		"https://ann:se#cret@host/x.git":     "https://(not a valid URL)",
		"":                                   "",
	} {
		if got := PublicURL(text); got != want {
			t.Errorf("%s is shown as %s, want %s", text, got, want)
		}
	}
}
