package main

import (
	"context"
	"encoding/json"
	"os/exec"
	"time"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// searchIndex is the file of package search, which this program does not link: SQLite would double its size.
const searchIndex = schema.StateName + "/search/v2.db"

// worthwhile is the size of an index, some thousand files, from which asking it is faster than reading all files.
const worthwhile = 8 << 20

// filesWith returns a filter for the names of files that may have all words of a text, as the program oacp-web finds
// them in its index. It returns nil if the index is missing or small, or does not answer soon: list then reads all files.
func filesWith(ctx context.Context, w *mailbox.Workspace, text string) mailbox.NameFilter {
	const patience = 3 * time.Second // an index that is far behind takes longer than reading all files
	info, err := w.Root().Lstat(searchIndex)
	program := command.FindSeparate("web")
	if err != nil || info.Size() < worthwhile || program == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	answer, err := exec.CommandContext(ctx, program, "--dir="+w.Dir(), "--files-with="+text).Output()
	var names []string
	if err == nil {
		err = json.Unmarshal(answer, &names)
	}
	if err != nil {
		return nil
	}
	may := make(map[string]bool, len(names))
	for _, name := range names {
		may[name] = true
	}
	return func(name string) bool { return may[name] }
}
