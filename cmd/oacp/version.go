package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/urfave/cli/v2"
)

type versionOptions struct{ json bool }

func newVersionCommand(s *streams) *cli.Command {
	var o versionOptions
	return &cli.Command{
		Name:     "version",
		Category: categoryProgram,
		Usage:    "print the version, also as --version and -V",
		Flags:    []cli.Flag{jsonFlag(&o.json)},
		Action: func(c *cli.Context) error {
			if err := noPositionals(c); err != nil {
				return err
			}
			return runVersion(o, s)
		},
	}
}

// versionAnswer says what this program was built from.
type versionAnswer struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Time     string `json:"commit_time,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func runVersion(o versionOptions, s *streams) error {
	v := buildVersion()
	if o.json {
		return writeJSON(s.out, v)
	}
	fmt.Fprintf(s.out, "oacp %s", v.Version)
	if v.Commit != "" {
		fmt.Fprintf(s.out, " (%.12s", v.Commit)
		if v.Modified {
			fmt.Fprint(s.out, ", modified")
		}
		fmt.Fprint(s.out, ")")
	}
	fmt.Fprintf(s.out, " %s %s\n", v.Go, v.Platform)
	return nil
}

// buildVersion reads what the Go tools stamped into the program.
func buildVersion() versionAnswer {
	v := versionAnswer{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
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
