package provider_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/cmd/oacp-gascity/provider"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
)

// isProvider marks a process of tests that is the program.
const isProvider = "OACP_TEST_IS_PROVIDER"

func TestMain(m *testing.M) {
	if os.Getenv(isProvider) != "" {
		os.Exit(provider.Main(os.Args[1:], command.ProcessStreams()))
	}
	if os.Getenv("OACP_GASCITY") != "" { // compiling must not begin anew in the home of the tests
		cache, err := exec.Command("go", "env", "GOCACHE").Output()
		if err == nil {
			err = os.Setenv("GOCACHE", strings.TrimSpace(string(cache)))
		}
		if err != nil {
			panic(err)
		}
	}
	mailboxtest.Main(m)
}

// theirTest runs the suite of Gas City. It is compiled in its module, since nobody else can import the suite.
const theirTest = `package exec

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gastownhall/gascity/internal/mail"
	"github.com/gastownhall/gascity/internal/mail/mailtest"
)

func TestOACP(t *testing.T) {
	mailtest.RunProviderTests(t, func(t *testing.T) mail.Provider {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "agents"), 0o755); err != nil {
			t.Fatal(err)
		}
		t.Setenv("OACP_WORKSPACE", dir)
		return NewProvider(os.Getenv("OACP_PROGRAM"))
	})
}
`

// TestSuiteOfGasCity runs the conformance suite for mail providers in a checkout of Gas City, which OACP_GASCITY names,
// with this program. It copies only the packages that the suite needs.
func TestSuiteOfGasCity(t *testing.T) {
	checkout := os.Getenv("OACP_GASCITY")
	if checkout == "" {
		t.Skip("OACP_GASCITY names no checkout of gastownhall/gascity")
	}
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module github.com/gastownhall/gascity\n\ngo 1.25\n")
	write("internal/mail/exec/oacp_test.go", theirTest)
	for _, folder := range []string{"internal/mail", "internal/mail/exec", "internal/mail/mailtest"} {
		files, err := filepath.Glob(filepath.Join(checkout, filepath.FromSlash(folder), "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has no Go files in %s: %v", checkout, folder, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if name := filepath.Base(file); !strings.HasSuffix(name, "_test.go") {
				write(folder+"/"+name, string(data))
			}
		}
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	suite := exec.CommandContext(t.Context(), "go", "test", "-v", "-count=1", "-run", "TestOACP", "./internal/mail/exec")
	suite.Dir = dir
	suite.Env = append(os.Environ(), "OACP_PROGRAM="+program, isProvider+"=1", "GOWORK=off", "GOFLAGS=")
	out, err := suite.CombinedOutput()
	passed := strings.Count(string(out), "    --- PASS: ")
	if err != nil || passed == 0 {
		t.Fatalf("%v: %d tests passed\n%s", err, passed, out)
	}
	t.Logf("%d tests of Gas City passed", passed)
}
