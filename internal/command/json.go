package command

import (
	"encoding/json"
	"io"

	"github.com/urfave/cli/v2"
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
