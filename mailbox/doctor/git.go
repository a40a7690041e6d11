package doctor

import (
	"context"
	"errors"
	"io/fs"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/mailbox/gitmail"
	"github.com/oacp-go/oacp/schema"
)

const (
	// repositoryName is the folder of the repository that a workspace may have.
	repositoryName = ".git"
	attributesName = ".gitattributes"
	// longestUser is how long the name of a user in the URL of a remote may be. A longer one is a token.
	longestUser = 20
)

// git inspects the workspace's own repository, or else how the repository around it treats the messages.
func (i *inspection) git(ctx context.Context) {
	i.category = categoryGit
	if _, err := i.w.Root().Lstat(repositoryName); errors.Is(err, fs.ErrNotExist) {
		i.committed(ctx)
		return
	}
	if err := git.Check(ctx); err != nil {
		i.add("git", SeverityError, "install git, or a later version; until then, messages stay in the folder", "%v", err)
		return
	}
	r, err := gitmail.Open(ctx, i.w)
	if errors.Is(err, gitmail.ErrNoRepository) && i.isUsers(ctx) {
		i.committed(ctx)
		return
	}
	if err != nil {
		i.unusable(err)
		return
	}
	i.remote(r.Settings())
	i.around(ctx)
	i.repository(ctx, r)
}

// unusable reports a repository that git cannot use.
func (i *inspection) unusable(err error) {
	hint := "fix what git reports"
	if e, ok := errors.AsType[*gitmail.RepositoryError](err); ok {
		err, hint = e.Err, e.Remake()+" makes a new one: all messages are in the folder, so none is lost"
	}
	i.add(repositoryName, SeverityError, hint, "cannot be used: %v", err)
}

// isUsers reports whether the workspace is the top of a user's repository.
func (i *inspection) isUsers(ctx context.Context) bool {
	if _, err := i.w.Root().Lstat(schema.StateName + "/git"); err == nil {
		return false // there was a sync
	}
	out, err := (&git.Repository{Dir: i.w.Dir()}).Run(ctx, "rev-parse", "--show-cdup", "--is-inside-work-tree")
	return err == nil && string(out) == "\ntrue\n" // the path up to the top is empty
}

// remote inspects the remote to which the messages go.
func (i *inspection) remote(s gitmail.Settings) {
	if s.URL == "" {
		i.add("remote", SeverityOK, "", "is missing, so the mail stays on this machine: oacp init --git adds one")
		return
	}
	if u, err := url.Parse(s.URL); err == nil && u.User != nil {
		if _, hasPassword := u.User.Password(); hasPassword || len(u.User.Username()) > longestUser {
			i.add("remote", SeverityWarning, "git remote set-url removes it from the URL, and a credential helper keeps it; then oacp init --git again",
				"the URL holds a password or token, which everyone who reads the settings of git sees")
			return
		}
	}
	i.add("remote", SeverityOK, "", "%s of %s", strings.TrimPrefix(s.MailRef(), "refs/heads/"), git.PublicURL(s.URL))
}

// repository inspects the commits, and which changes are not committed.
func (i *inspection) repository(ctx context.Context, r *gitmail.Repository) {
	unsent, err := r.Health(ctx)
	if git.Exit(err) >= 0 {
		i.unusable(err)
		return
	}
	if err != nil {
		i.fail(repositoryName, err)
		return
	}
	left, err := gitmail.ReadLeftOut(i.w)
	if err != nil {
		i.fail(repositoryName, err)
	}
	for _, l := range left {
		_, hint := l.Explain()
		i.add("sync", SeverityError, hint, "%v; it has %s there", &l, spelling.Plural(len(l.Pending), "pending message"))
	}
	last := "no sync has succeeded yet"
	if at, err := r.LastSync(); err == nil {
		last = "the last sync was " + spelling.Age(at, i.Now) + " ago"
	}
	if unsent > 0 && r.Settings().URL != "" {
		i.add("sync", SeverityWarning, "oacp sync", "%s to send; %s", spelling.Plural(unsent, "change"), last)
	} else if unsent == 0 {
		i.add("sync", SeverityOK, "", "nothing to send; %s", last)
	}
}

// around inspects whether the repository around the workspace ignores it.
func (i *inspection) around(ctx context.Context) {
	if i.Enclosing == "" {
		return
	}
	name := filepath.Base(i.w.Dir())
	enclosing, err := git.Enclose(ctx, i.w.Dir(), i.Enclosing)
	ignored := false
	if err == nil {
		ignored, err = enclosing.IsIgnored(ctx)
	}
	switch {
	case errors.Is(err, git.ErrTracked):
		i.add(name, SeverityError, "git rm -r --cached takes them out of the next commit, and keeps the files", "%v", err)
		return
	case err != nil:
		i.fail(name, err)
		return
	}
	if !ignored {
		i.add(name, SeverityWarning, "oacp init --git lists it in the info/exclude of the repository",
			"is not ignored by the repository in %s: git add -A there would make it a submodule", i.Enclosing)
	}
}
