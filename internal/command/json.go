package command

import (
	"encoding/json"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/validate"
)

// JSONFlag is the flag --json, which every command that prints has.
func JSONFlag(destination *bool) cli.Flag {
	return &cli.BoolFlag{Name: "json", Usage: "print JSON", Destination: destination}
}

// WriteJSON prints one indented object. Characters of HTML are not escaped.
func WriteJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

// WriteJSONLine prints one object on one line.
func WriteJSONLine(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// failureJSON is an error on standard output.
type failureJSON struct {
	Error    string               `json:"error"`
	Code     string               `json:"code"`
	Hint     string               `json:"hint,omitempty"`
	Findings validate.Diagnostics `json:"diagnostics,omitempty"`
}

func newFailureJSON(f failure.Failure) failureJSON {
	return failureJSON{f.Message(), f.Code, f.Hint, f.Findings}
}
