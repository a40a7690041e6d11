package project

// What the tests call of the package.
const (
	CardName = cardName
	MaxPath  = maxPath
)

var (
	RuntimeOf     = runtimeOf
	SetRepository = setRepository
)
