package agent

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// pooled is a driver that notes when it starts and stops.
type pooled struct {
	echo
	name string
	log  *[]string
	err  error
}

func (p *pooled) Start(context.Context) error {
	*p.log = append(*p.log, "start "+p.name)
	return p.err
}

func (p *pooled) Stop(context.Context) error {
	*p.log = append(*p.log, "stop "+p.name)
	return nil
}

// TestPool checks which drivers a pool starts, keeps and stops.
func TestPool(t *testing.T) {
	var log []string
	pool := &Pool{Most: 2, New: func(key, session string) Driver {
		p := &pooled{name: key + "/" + session, log: &log}
		if session == "gone" {
			p.err = ErrUnknownSession
		}
		return p
	}}
	get := func(key, session string, mayBegin bool) Driver {
		t.Helper()
		driver, err := pool.Get(t.Context(), key, session, mayBegin)
		if err != nil {
			t.Fatal(err)
		}
		return driver
	}
	keep := func(key string, driver Driver) {
		t.Helper()
		if err := pool.Keep(t.Context(), key, driver); err != nil {
			t.Fatal(err)
		}
	}
	first := get("", "", false)
	keep("", first)
	b := get("b", "1", false) // the first has no session
	if a := get("a", "", true); a != first {
		t.Error("the driver kept for the empty key does not serve the first key")
	}
	keep("a", first)
	keep("b", b)
	if get("a", "2", true) != first {
		t.Error("the key's own driver was not kept")
	}
	keep("a", first)
	c := get("c", "gone", true)
	keep("c", c) // the third: b has been idle longest
	if _, err := pool.Get(t.Context(), "d", "gone", false); !errors.Is(err, ErrUnknownSession) {
		t.Errorf("Get of a forgotten session = %v, want ErrUnknownSession", err)
	}
	if err := pool.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := "start /, start b/1, start c/gone, stop c/gone, start c/, stop b/1, start d/gone, stop d/gone, stop /, stop c/"
	if got := strings.Join(log, ", "); got != want {
		t.Errorf("the drivers did\n%s, want\n%s", got, want)
	}
}
