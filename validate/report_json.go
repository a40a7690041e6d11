package validate

import (
	"encoding/json"
	"io"
)

// WriteJSON writes the result as one JSON object: the numbers of files, invalid files, errors and
// warnings, and the array diagnostics.
func (r *Result) WriteJSON(to io.Writer) error {
	all := r.Diagnostics()
	if all == nil {
		all = Diagnostics{}
	}
	return writeJSON(to, struct {
		Count
		Diagnostics Diagnostics `json:"diagnostics"`
	}{r.Count(), all})
}

func writeJSON(to io.Writer, value any) error {
	encoder := json.NewEncoder(to)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}
