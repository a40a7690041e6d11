package repository

import (
	"go/ast"
	"slices"
	"testing"
)

// decoding lists the files that decode messages by themselves, with the reason why nobody gets to see those of an
// agent that reads only verified ones.
var decoding = map[string]string{
	"mailbox/screen.go":            "this is where files are held",
	"mailbox/trust/screen.go":      "it looks at a recipient after the signature",
	"mailbox/trust/check.go":       "it looks at the sender after the signature",
	"mailbox/send.go":              "it compares ids of what is sent",
	"mailbox/recovery.go":          "it completes deliveries",
	"mailbox/aside.go":             "it finds the mail of removed agents by id, to put it back",
	"mailbox/receive.go":           "it delivers",
	"mailbox/gitmail/apply.go":     "it delivers",
	"mailbox/gitmail/plancopy.go":  "it carries files",
	"mailbox/marks.go":             "it names files as all machines do",
	"mailbox/replica/workspace.go": "it names files, and moves them as other machines did",
	"convert/mirror/sent.go":       "it finds what it has sent itself",
	"search/update.go":             "it indexes; Search reads what it shows as mailbox.Entry has it",
	"validate/change/change.go":    "it judges what a change adds",
}

// unscreened lists the files that read the bytes of files that may be held, with the reason why no agent gets to see them.
var unscreened = map[string]string{
	"mailbox/screen.go":            "it checks them",
	"mailbox/restore.go":           "it puts a file back",
	"mailbox/marks.go":             "it names files as all machines do",
	"mailbox/publish.go":           "it looks whether a delivered file is the same",
	"mailbox/acknowledge.go":       "it reads the reason of a dead letter",
	"mailbox/gitmail/plancopy.go":  "it carries files",
	"mailbox/replica/workspace.go": "it carries files",
	"mailbox/replica/look.go":      "it carries files",
	"turn/track/restore.go":        "it identifies a file by its bytes",
	"convert/mirror/sent.go":       "it finds what it has sent itself",
	"search/update.go":             "it indexes; Search reads what it shows with Workspace.Read",
}

// opened lists the files that open workspaces without the keys of their agents, with the reason.
var opened = map[string]string{
	"mailbox/project/init.go":                     "it makes folders",
	"cmd/oacp/initgit.go":                         "it makes a repository",
	"client/client.go":                            "it adds the keys, and looks for a session in another workspace",
	"internal/testing/mailboxtest/mailboxtest.go": "only tests use it",
	"internal/testing/walk/walk.go":               "only tests use it",
}

// TestMailboxesAreScreened checks that programs open workspaces with internal/command.Open, and read messages
// in mailboxes as mailbox.Entry has them or with Workspace.Decode. So no reader can forget that an agent reads
// only verified messages.
func TestMailboxesAreScreened(t *testing.T) {
	found := make(map[string]bool)
	for _, f := range programFiles(t) {
		ast.Inspect(f.tree, func(n ast.Node) bool {
			if name, ok := n.(*ast.Ident); ok && name.Name == "ReadUnscreened" {
				if found[f.name()] = true; unscreened[f.name()] == "" {
					f.report(t, name, "%s reads a file that may be held; use Workspace.Read, or list the file here with a reason", f.name())
				}
			}
			return true
		})
		f.selections(func(from string, selected *ast.SelectorExpr) {
			switch name := selected.Sel.Name; {
			case from == "validate" && slices.Contains([]string{"Read", "Decode", "Bytes"}, name):
				if found[f.name()] = true; decoding[f.name()] == "" {
					f.report(t, selected, "%s decodes a message; use Workspace.Decode, or list the file here with a reason", f.name())
				}
			case from == "mailbox" && name == "Open":
				if found[f.name()] = true; opened[f.name()] == "" {
					f.report(t, selected, "%s opens a workspace; use client.OpenWorkspace, or list the file here with a reason", f.name())
				}
			}
		})
	}
	for _, list := range []map[string]string{decoding, opened, unscreened} {
		for name := range list {
			if !found[name] {
				t.Errorf("%s is listed, but does not do that", name)
			}
		}
	}
}
