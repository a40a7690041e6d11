package main

import (
	"context"
	"errors"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn"
)

// noticed AGENT ID SESSION records that a session of claude noticed a message, in the workspace that is
// the current folder.
func noticed(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: noticed AGENT ID SESSION")
	}
	w, err := mailbox.Open(ts.MkAbs("."), nil)
	ts.Check(err)
	found, err := w.Find(context.Background(), args[1])
	ts.Check(err)
	key, err := turn.KeyOf(found[0].Message)
	ts.Check(err)
	err = turn.NoteNoticed(w, schema.AgentName(args[0]), []turn.Key{key}, turn.Noticed{Session: args[2], Program: "claude"})
	ts.Check(errors.Join(err, w.Close()))
}
