package schema

import "testing"

func TestHops(t *testing.T) {
	for keys, want := range map[string]int{
		"": 0, "hops: 3": 3, "final: true\n hops:  12 \nhops: 4": 12, "hops: -1": 0, "hops: many": 0, "the hops: 3": 0,
		"hops: 99999999999999999999999": 0,
	} {
		if got := (&Message{ContextKeys: keys}).Hops(); got != want {
			t.Errorf("context keys %q: %d hops, want %d", keys, got, want)
		}
	}
	m := Message{ContextKeys: "hops: 7\nread the log\nhops: 2\n"}
	m.SetHops(3)
	if want := "read the log\nhops: 3"; m.ContextKeys != want {
		t.Errorf("context keys are %q, want %q", m.ContextKeys, want)
	}
	m.SetHops(3)
	m.AllowSecret()
	m.AllowSecret()
	if want := "read the log\nhops: 3\nallow_secret: true"; m.ContextKeys != want || !m.AllowsSecret() {
		t.Errorf("context keys are %q, want %q", m.ContextKeys, want)
	}
}
