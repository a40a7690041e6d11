package validate

import (
	"io"
	"net/url"
	"path/filepath"
	"strings"
)

// The part of SARIF 2.1.0 that a validator needs. A library for all of SARIF would slow down the
// start of every command.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool       sarifTool     `json:"tool"`
		ColumnKind string        `json:"columnKind"`
		Results    []sarifResult `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name           string      `json:"name"`
		Version        string      `json:"version,omitempty"`
		InformationURI string      `json:"informationUri"`
		Rules          []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID               Rule               `json:"id"`
		ShortDescription sarifText          `json:"shortDescription"`
		Default          sarifConfiguration `json:"defaultConfiguration"`
	}
	sarifConfiguration struct {
		Level Severity `json:"level"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifResult struct {
		RuleID     Rule             `json:"ruleId"`
		RuleIndex  int              `json:"ruleIndex"`
		Level      Severity         `json:"level"`
		Message    sarifText        `json:"message"`
		Locations  []sarifLocation  `json:"locations"`
		Properties *sarifProperties `json:"properties,omitempty"`
	}
	sarifProperties struct {
		Fix string `json:"fix"`
	}
	sarifLocation struct {
		Physical sarifPhysical  `json:"physicalLocation"`
		Logical  []sarifLogical `json:"logicalLocations,omitempty"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   *sarifRegion  `json:"region,omitempty"`
	}
	sarifArtifact struct {
		URI string `json:"uri"`
	}
	sarifRegion struct {
		StartLine   int `json:"startLine"`
		StartColumn int `json:"startColumn"`
	}
	sarifLogical struct {
		FullyQualifiedName string `json:"fullyQualifiedName"`
	}
)

// WriteSARIF writes the result as a SARIF 2.1.0 log for code scanning services. The version is that
// of the program. SARIF's levels have the names of our severities.
func (r *Result) WriteSARIF(to io.Writer, version string) error {
	index := make(map[Rule]int, len(rules))
	driver := sarifDriver{Name: "oacp", Version: version, InformationURI: "https://github.com/oacp-go/oacp"}
	for i, rule := range rules {
		index[rule.ID] = i
		driver.Rules = append(driver.Rules, sarifRule{rule.ID, sarifText{rule.Description}, sarifConfiguration{rule.Severity}})
	}
	results := []sarifResult{}
	for i := range r.Files {
		for _, d := range r.Files[i].Diagnostics {
			results = append(results, newSARIFResult(d, index[d.Rule]))
		}
	}
	return writeJSON(to, sarifLog{
		Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0",
		Runs: []sarifRun{{Tool: sarifTool{driver}, ColumnKind: "unicodeCodePoints", Results: results}},
	})
}

func newSARIFResult(d Diagnostic, index int) sarifResult {
	location := sarifLocation{Physical: sarifPhysical{Artifact: sarifArtifact{artifactURI(d.File)}}}
	if d.Line > 0 {
		location.Physical.Region = &sarifRegion{d.Line, d.Column}
	}
	if d.Field != "" {
		location.Logical = []sarifLogical{{d.Field}}
	}
	result := sarifResult{RuleID: d.Rule, RuleIndex: index, Level: d.Severity, Message: sarifText{d.Message}, Locations: []sarifLocation{location}}
	if d.Fix != "" {
		// SARIF's own fixes are edits of files. Ours is a sentence.
		result.Message.Text += " (" + d.Fix + ")"
		result.Properties = &sarifProperties{d.Fix}
	}
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
