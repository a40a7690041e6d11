package dashboard

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/turn/track"
)

// TestJSONIsDocumented checks that docs/dashboard.md names every key of --json and marks those that
// may be missing.
func TestJSONIsDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "dashboard.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range []any{Snapshot{}, Workspace{}, Agent{}, track.AgentStatus{}, Message{}, Run{}, bridge.Status{}} {
		for _, field := range reflect.VisibleFields(reflect.TypeOf(object)) {
			name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name == "" || name == "-" {
				continue
			}
			want := "`" + name + "`"
			if strings.HasPrefix(options, "omit") {
				want += "*"
			}
			if !strings.Contains(string(page), want) {
				t.Errorf("docs/dashboard.md lacks %s of %T", want, object)
			}
		}
	}
}
