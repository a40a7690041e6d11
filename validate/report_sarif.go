package validate

import (
	"io"
	"net/url"
	"path/filepath"
	"strings"
)

// object is a JSON object of a SARIF log. A library for all of SARIF would slow down the start of
// every command.
type object map[string]any

// WriteSARIF writes the result as a SARIF 2.1.0 log for code scanning services. The version is that
// of the program.
func (r *Result) WriteSARIF(to io.Writer, version string) error {
	index := make(map[Rule]int, len(rules))
	described := make([]object, len(rules))
	for i, rule := range rules {
		index[rule.ID] = i
		// SARIF's levels have the names of our severities.
		described[i] = object{
			"id":                   rule.ID,
			"shortDescription":     object{"text": rule.Description},
			"defaultConfiguration": object{"level": rule.Severity},
		}
	}
	driver := object{"name": "oacp", "informationUri": "https://github.com/oacp-go/oacp", "rules": described}
	if version != "" {
		driver["version"] = version
	}
	results := []object{}
	for _, d := range r.Diagnostics() {
		results = append(results, sarifResult(d, index[d.Rule]))
	}
	return writeJSON(to, object{
		"$schema": "https://json.schemastore.org/sarif-2.1.0.json",
		"version": "2.1.0",
		"runs":    []object{{"tool": object{"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}},
	})
}

func sarifResult(d Diagnostic, index int) object {
	physical := object{"artifactLocation": object{"uri": artifactURI(d.File)}}
	if d.Line > 0 {
		physical["region"] = object{"startLine": d.Line, "startColumn": d.Column}
	}
	location := object{"physicalLocation": physical}
	if d.Field != "" {
		location["logicalLocations"] = []object{{"fullyQualifiedName": d.Field}}
	}
	result := object{"ruleId": d.Rule, "ruleIndex": index, "level": d.Severity, "locations": []object{location}}
	message := d.Message
	if d.Fix != "" {
		// SARIF's own fixes are edits of files. Ours is a sentence.
		message += " (" + d.Fix + ")"
		result["properties"] = object{"fix": d.Fix}
	}
	result["message"] = object{"text": message}
	return result
}

// artifactURI returns the path as a URI reference.
func artifactURI(path string) string {
	if path == stdinName {
		return "stdin"
	}
	slashed := filepath.ToSlash(path)
	if !filepath.IsAbs(path) {
		return (&url.URL{Path: slashed}).String()
	}
	if !strings.HasPrefix(slashed, "/") {
		slashed = "/" + slashed
	}
	return (&url.URL{Scheme: "file", Path: slashed}).String()
}
