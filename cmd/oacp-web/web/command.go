// Package web is the command "oacp web". It serves the pages of a workspace to the browser of one person, who reads,
// searches and answers there.
//
// A request passes the guard (guard.go), which knows who may ask, and then one of the routes (server.go). A page is made
// of a view model and a template (page.go); the other files have one subject each. The server writes only through
// packages mailbox and track, in the name of its person.
package web

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/client"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/notify"
)

type options struct {
	workspace command.Workspace
	agent     string
	listen    Listen
	open      bool
	export    string
	log       command.BridgeLog
}

// NewCommand returns the command "oacp web".
func NewCommand(s *command.Streams) *cli.Command {
	var o options
	return &cli.Command{
		Name:      "web",
		Category:  command.CategoryTurns,
		Usage:     "read and answer in a browser",
		ArgsUsage: "[PROJECT] [--agent AGENT] [--open]",
		Description: `web serves pages for a person: what waits for her, conversations, mailboxes, runs and a search.
It prints a URL that lets one browser in; after that it prints another one. Answers are
sent in the name of AGENT, a person of the workspace; without one, the pages only show.

Other machines cannot reach the pages, unless --listen names an address of this one. That
needs a certificate, or --proxy and --url. After SIGTERM or ^C, the command exits with
status 0.

EXAMPLES:
   oacp web --open
   oacp web --agent anna --listen 127.0.0.1:7070
   oacp web --export public`,
		Flags: slices.Concat([]cli.Flag{
			&cli.StringFlag{Name: "agent", Usage: "answer as `AGENT` (default: the only person)", Destination: &o.agent},
			&cli.BoolFlag{Name: "open", Usage: "open the browser", Destination: &o.open},
			&cli.StringFlag{Name: "listen", Usage: "serve at `ADDRESS`; port 0 picks a free port", Value: "127.0.0.1:0", Destination: &o.listen.Address},
			&cli.StringFlag{Name: "export", Usage: "serve nothing, but write the pages as files into the new folder `DIR`", Destination: &o.export},
			&cli.StringFlag{Name: "cert", Category: command.Rare, Usage: "serve TLS with the certificate in `FILE`", Destination: &o.listen.Cert},
			&cli.StringFlag{Name: "key", Category: command.Rare, Usage: "the key of the certificate is in `FILE`", Destination: &o.listen.Key},
			&cli.StringFlag{Name: "proxy", Category: command.Rare, Usage: "answer only the proxy at the IP address `ADDRESS`", Destination: &o.listen.Proxy},
			&cli.StringFlag{Name: "url", Category: command.Rare, Usage: "browsers reach the proxy at `URL`, such as https://mail.example.org", Destination: &o.listen.URL},
		}, o.log.RunsFlags(), o.workspace.Flags()),
		Action: func(c *cli.Context) error {
			if err := o.workspace.TakeProject(command.Positionals(c)); err != nil {
				return err
			}
			return o.workspace.With(s, nil, func(w *mailbox.Workspace) error { return o.run(c.Context, w, s) })
		},
	}
}

func (o options) run(ctx context.Context, w *mailbox.Workspace, s *command.Streams) (err error) {
	ctx, stop := command.UntilSignal(ctx)
	defer stop()
	person, err := personOf(w, o.agent, s)
	if err != nil {
		return err
	}
	warn := func(err error) { s.Warn(failure.OneLine(err.Error())) }
	root, _, repositories, err := o.log.RepositoryIDs(s, false)
	if err != nil {
		return err
	}
	options := Options{Person: person, Runs: Runs{root, repositories}, WorkingDir: s.Dir, Warn: warn}
	if o.export != "" {
		return o.write(ctx, w, options, s)
	}
	server, err := New(w, options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	listener, err := server.Listen(o.listen, func(url string) {
		fmt.Fprintln(s.Out, url)
		if err := s.Out.Flush(); err != nil {
			warn(err)
		}
	})
	if err != nil {
		return err
	}
	if person == "" {
		s.Note("nothing can be sent: the workspace has no person, or several; see --agent and oacp add-agent NAME --runtime human")
	}
	url := listener.Invite()
	if o.open {
		if err := openBrowser(ctx, url); err != nil {
			warn(fmt.Errorf("the browser does not open: %w", err))
		}
	}
	defer notify.Start(ctx, warn, w)()
	return listener.Serve(ctx)
}

// write writes the pages as files.
func (o options) write(ctx context.Context, w *mailbox.Workspace, options Options, s *command.Streams) error {
	if o.open || o.agent != "" {
		return failure.Usagef("--export writes pages that only show").WithHint("leave out --agent and --open")
	}
	dir := o.export
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(s.Dir, dir)
	}
	pages, err := Export(ctx, w, dir, options, func(done, known int) {
		if done%1000 == 0 {
			s.Note(fmt.Sprintf("%d of %d pages", done, known))
		}
	})
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	fmt.Fprintf(s.Out, "%s: %d files\n", visible.Line(filepath.Join(dir, "index.html")), pages)
	return nil
}

// personOf returns the person that the server acts for, or nothing if no flag names one and there is not exactly one.
func personOf(w *mailbox.Workspace, flag string, s *command.Streams) (schema.AgentName, error) {
	if flag == "" {
		agents, err := w.Agents()
		if err != nil {
			return "", err
		}
		people := 0
		for _, a := range agents {
			if project.IsPerson(w, a) {
				people++
				flag = string(a)
			}
		}
		if people != 1 || s.InAgent() && !s.AsPerson {
			return "", nil
		}
	}
	person, err := client.Acting(w, schema.AgentName(flag), s.Caller())
	if err == nil {
		err = w.CheckAgent(person)
	}
	if err == nil && !project.IsPerson(w, person) {
		err = failure.WithHint(fmt.Errorf("%s is no person", person), "oacp add-agent NAME --runtime human adds one; without --agent, the pages only show")
	}
	if err == nil && s.InAgent() && !s.AsPerson {
		err = failure.New("person", fmt.Sprintf("%s is a person, and an agent has started this server", person), "start it in a terminal of your own; without --agent, the pages only show")
	}
	return person, err
}

// openBrowser opens the URL in the user's browser.
func openBrowser(ctx context.Context, url string) error {
	words := []string{"xdg-open", url}
	switch runtime.GOOS {
	case "darwin":
		words[0] = "open"
	case "windows":
		words = []string{"rundll32", "url.dll,FileProtocolHandler", url}
	}
	browser := exec.CommandContext(ctx, words[0], words[1:]...)
	browser.Cancel = func() error { return errors.New("the browser stays open") }
	if err := browser.Start(); err != nil {
		return err
	}
	return browser.Process.Release()
}
