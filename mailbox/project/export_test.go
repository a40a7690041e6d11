package project

// What the tests call of the package.
const (
	AgentsName = agentsName
	CardName   = cardName
)

var (
	RuntimeOf     = runtimeOf
	SetRepository = setRepository
)
