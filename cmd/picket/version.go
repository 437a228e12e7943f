package main

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// release is set by the linker in released archives; `go install` leaves it to the build info.
var release string

type versionInfo struct {
	Version  string `json:"version"`
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"`
}

func (p *program) newVersion() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version [--json]",
		Short: "Print the version",
		Example: `  picket version
  picket version --json`,
		Args:              exactArgs(),
		ValidArgsFunction: noFiles,
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return writeJSON(p.out, readVersion())
			}
			return p.printVersion()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func (p *program) printVersion() error {
	v := readVersion()
	return written(fmt.Fprintf(p.out, "picket %s %s %s/%s\n", v.Version, v.Go, v.OS, v.Arch))
}

func readVersion() versionInfo {
	v := versionInfo{Version: "(devel)", Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		if info.Main.Version != "" {
			v.Version = info.Main.Version
		}
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				v.Commit = s.Value
			case "vcs.modified":
				v.Modified = s.Value == "true"
			}
		}
	}
	if release != "" {
		v.Version = release
	}
	return v
}

// writeJSON writes v on one line.
func writeJSON(w io.Writer, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return written(w.Write(append(line, '\n')))
}

// written is the error of a command whose output nobody takes.
func written(_ int, err error) error {
	if err != nil {
		return exitf(exitFailed, "cannot write the output: %s", err)
	}
	return nil
}
