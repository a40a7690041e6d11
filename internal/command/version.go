package command

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/urfave/cli/v2"
)

// Version says what the program was built from.
type Version struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Time     string `json:"commit_time,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// BuildVersion returns what the Go tools recorded in the program.
func BuildVersion() Version {
	v := Version{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			v.Commit = setting.Value
		case "vcs.time":
			v.Time = setting.Value
		case "vcs.modified":
			v.Modified = setting.Value == "true"
		}
	}
	return v
}

// NewVersionCommand returns the command that prints the version.
func NewVersionCommand(s *Streams) *cli.Command {
	var asJSON bool
	return &cli.Command{
		Name:     "version",
		Category: CategoryProgram,
		Usage:    "print the version",
		Flags:    []cli.Flag{JSONFlag(&asJSON)},
		Action: func(c *cli.Context) error {
			if _, err := AtMost(c, 0); err != nil {
				return err
			}
			return s.Answer(asJSON, BuildVersion(), func() { fmt.Fprintln(s.Out, BuildVersion()) })
		},
	}
}

// String returns the version on one line, with the commit if it is known.
func (v Version) String() string {
	commit := ""
	switch {
	case v.Commit != "" && v.Modified:
		commit = fmt.Sprintf(" (%.12s, modified)", v.Commit)
	case v.Commit != "":
		commit = fmt.Sprintf(" (%.12s)", v.Commit)
	}
	return fmt.Sprintf("oacp %s%s %s %s", v.Version, commit, v.Go, v.Platform)
}
