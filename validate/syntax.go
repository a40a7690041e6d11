package validate

import "strings"

func syntaxProblem(text string, err error) Diagnostic {
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	return treeProblem(1, 1, nil, RuleSyntax, message, "")
}
