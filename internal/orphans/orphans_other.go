//go:build !linux

package orphans

import "context"

func end(context.Context, []Mark) ([]Process, error) { return nil, nil }
