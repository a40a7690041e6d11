package gitmail

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/replica"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// differences adds the names in which a tree and the base differ: messages that the agent got, and those that
// it sent. It notes files that a sync does not take.
func (e *exchange) differences(v *view, agent schema.AgentName, keys, sent map[string]bool) error {
	below := "agents/" + string(agent) + "/"
	check := func(folder string, into map[string]bool, day string, check func(string) error) error {
		return e.compare(v, folder, func(name string, was, is entry) {
			message := strings.TrimSuffix(name, mailbox.ReasonSuffix)
			switch {
			case strings.HasPrefix(name, ".") || was.mode == "40000" && is.mode == "":
				return
			case day == "" && name == string(mailbox.Archive) && is.mode == "40000":
				return // in the inbox
			}
			err := check(message)
			switch {
			case err == nil && day != "" && replica.Day(message) != day:
				err = errForeign
			case err == nil && is != entry{} && !is.isFile():
				err = fmt.Errorf("it is not a regular file: its mode is %s", is.mode)
			case err == nil && was.isFile() && is.isFile() && message == name:
				err = errors.New("it was changed after it was published; the workspace keeps what it has")
			}
			if err == nil {
				into[message] = true
			} else if is != (entry{}) {
				e.problem(folder+"/"+name, err)
			}
		})
	}
	err := cmp.Or(check(below+"inbox", keys, "", replica.CheckName), check(below+restoredName, keys, "", replica.CheckName))
	days := func(box string, into map[string]bool, each func(string) error) {
		err = cmp.Or(err, e.compare(v, below+box, func(day string, was, is entry) {
			if was.mode != folder && is.mode != folder {
				if is != (entry{}) && !strings.HasPrefix(day, ".") {
					e.problem(below+box+"/"+day, errForeign)
				}
				return
			}
			if was.mode != folder && day < e.r.settings.Since {
				return // old mail that is not wanted here; what is here anyway is found by its file
			}
			err = cmp.Or(err, check(below+box+"/"+day, into, day, each))
			// Pruning leaves a list.
			for _, side := range []*view{v, e.base} {
				list, listErr := side.pruned(below + box + "/" + day)
				for name := range list {
					into[name] = true
				}
				err = cmp.Or(err, listErr)
			}
		}))
	}
	days("inbox/archive", keys, replica.CheckName)
	days(legacyArchive, keys, replica.CheckName)
	days(string(mailbox.DeadLetters), keys, replica.CheckName)
	days(string(mailbox.Outbox), sent, func(name string) error { return replica.CheckSent(agent, name) })
	if err == nil && v.isLegacy() {
		err = e.recipients(v, agent, sent, keys)
	}
	return err
}

// recipients adds the messages for an agent in a tree of an earlier version, which says of handled ones only that
// they were sent.
func (e *exchange) recipients(v *view, agent schema.AgentName, sent, keys map[string]bool) error {
	if e.legacy == nil {
		e.legacy = make(map[schema.AgentName][]string)
		_, senders, err := v.folder("agents")
		if err != nil {
			return err
		}
		for from := range senders {
			_, days, err := v.folder("agents/" + from + "/outbox")
			if err != nil {
				return err
			}
			for day := range days {
				_, names, err := v.folder("agents/" + from + "/outbox/" + day)
				if err != nil {
					return err
				}
				for name, file := range names {
					if !file.isFile() || replica.CheckSent(schema.AgentName(from), name) != nil {
						continue
					}
					data, err := v.file(file.object)
					if _, refused := errors.AsType[errRefused](err); err != nil && !refused {
						return err
					}
					if m, err := validate.Read(data); err == nil {
						for _, to := range m.To {
							e.legacy[to] = append(e.legacy[to], name)
						}
					}
				}
			}
		}
	}
	for _, name := range e.legacy[agent] {
		keys[name] = true
	}
	return nil
}

// compare calls visit for each name of a folder that a tree and the base have differently.
func (e *exchange) compare(v *view, path string, visit func(name string, was, is entry)) error {
	before, was, err := e.base.folder(path)
	if err != nil {
		return err
	}
	after, is, err := v.folder(path)
	if err != nil || before == after {
		return err
	}
	for name, file := range is {
		if was[name] != file {
			visit(name, was[name], file)
		}
	}
	for name, file := range was {
		if _, ok := is[name]; !ok {
			visit(name, file, entry{})
		}
	}
	return nil
}
