package gitmail

// SetStep makes Sync call step with the name of each step that it has reached.
func (r *Repository) SetStep(step func(name string)) { r.step = step }
