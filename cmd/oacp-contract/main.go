// Command oacp-contract is "oacp contract": it tells other programs whether bodies fit the schemas of
// a workspace. It is a separate program because the schema library takes time to start.
package main

import (
	"github.com/oacp-go/oacp/cmd/oacp-contract/judge"
	"github.com/oacp-go/oacp/internal/command"
)

func main() { command.MainOf("contract", judge.NewCommand) }
