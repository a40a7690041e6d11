//go:build !linux

package orphans

import "context"

func end(context.Context, []byte) (int, error) { return 0, nil }
