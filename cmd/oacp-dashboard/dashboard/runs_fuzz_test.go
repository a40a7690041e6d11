package dashboard

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/oacp-go/oacp/bridge"
)

// FuzzRunFiles checks that whatever the files of a run hold, the run can be shown as text and as
// JSON.
func FuzzRunFiles(f *testing.F) {
	f.Add([]byte(`{"version":1,"id":1,"state":"working","turn":{"agent":"codex"}}`), []byte(`{"type":"signal","from":"a","signal":"DONE"}`+"\n"))
	f.Add([]byte(`{"version":1,"id":1,"spent":{"cost_usd":1.7e308}}`), []byte("null\n"))
	f.Add([]byte(`{"id":1,"prompt":"\u001b[2J"}`), []byte("{"))
	root, repository := f.TempDir(), f.TempDir()
	run, err := bridge.MakeRun(root, repository, 1, time.Unix(1e9, 0))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, manifest, log []byte) {
		for path, data := range map[string][]byte{run.ManifestPath(): manifest, run.BridgePath(): log} {
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s := &source{RunsRoot: root, RepositoryIDs: []string{run.RepositoryID}}
		snapshot, err := s.gather(t.Context())
		if err != nil || len(snapshot.Runs) != 1 {
			t.Fatalf("%d runs, %v, want one", len(snapshot.Runs), err)
		}
		if _, err := json.Marshal(snapshot); err != nil {
			t.Errorf("manifest %q and log %q cannot be shown as JSON: %v", manifest, log, err)
		}
	})
}
