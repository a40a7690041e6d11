package gitmail

import "github.com/oacp-go/oacp/internal/git"

// SetStep makes Sync call step with the name of each step that it has reached.
func (r *Repository) SetStep(step func(name string)) { r.step = step }

// Git returns the repository for commands of git.
func (r *Repository) Git() *git.Repository { return r.git }
