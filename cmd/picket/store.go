package main

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/filestore"
)

// schemes are what openStore understands, for the message about one that it does not.
const schemes = "file:///absolute/directory"

// store is an opened store and what the command line wants to know of it beside.
type store struct {
	picket.Store
	name    string                             // what a user may read: without passwords
	id      string                             // the same for everybody who means the same store
	chosen  bool                               // by the user, not by default
	inherit func(key string) (*os.File, error) // the descriptor that holds a lock, for a child; nil if the store has none
}

// open opens the store of --store, PICKET_STORE or the default, in this order.
func (p *program) open() (*store, error) {
	if p.storeURL != "" {
		return openStore(p.storeURL, "--store")
	}
	if env := os.Getenv("PICKET_STORE"); env != "" {
		return openStore(env, "PICKET_STORE")
	}
	dir, err := stateDir()
	if err != nil {
		return nil, err
	}
	return openFiles(dir, false)
}

func openStore(text, source string) (*store, error) {
	u, err := url.Parse(text)
	if err != nil {
		// The text of err repeats the URL, which may hold a password.
		return nil, exitf(exitUsage, "%s is not a URL; possible is %s", source, schemes)
	}
	switch u.Scheme {
	case "file":
		dir, opts, err := fileURL(u)
		if err != nil {
			return nil, exitf(exitUsage, "%s %q: %s", source, text, err)
		}
		return openFiles(dir, true, opts...)
	case "":
		return nil, exitf(exitUsage, "%s %q has no scheme; possible is %s", source, u.Redacted(), schemes)
	}
	return nil, exitf(exitUsage, "%s: scheme %q is unknown; possible is %s", source, u.Scheme, schemes)
}

// networkFS is the parameter that accepts a directory on a network file system.
const networkFS = "network-fs"

// fileURL returns the directory of file:///dir, file:/dir or file:dir, which is relative to the working directory, and the store's options.
func fileURL(u *url.URL) (dir string, opts []filestore.Option, err error) {
	if u.Host != "" && u.Host != "localhost" {
		return "", nil, fmt.Errorf("%q is read as a host; an absolute directory takes three slashes: file:///%s%s", u.Host, u.Host, u.Path)
	}
	switch {
	case u.RawQuery == networkFS:
		opts = append(opts, filestore.WithNetworkFS())
	case u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		return "", nil, fmt.Errorf("?%s is the only parameter of a file store; write ? and # in a name as %%3F and %%23", networkFS)
	}
	dir = u.Path
	if u.Opaque != "" {
		if dir, err = url.PathUnescape(u.Opaque); err != nil {
			return "", nil, err
		}
	}
	if dir == "" {
		return "", nil, fmt.Errorf("the directory is missing; possible is %s", schemes)
	}
	if runtime.GOOS == "windows" { // file:///C:/dir has the path /C:/dir
		if cut := strings.TrimPrefix(dir, "/"); filepath.VolumeName(cut) != "" {
			dir = cut
		}
	}
	dir, err = filepath.Abs(filepath.FromSlash(dir))
	return dir, opts, err
}

// stateDir is where the XDG base directory specification wants what must outlive a session but not a move to another machine. A relative
// $XDG_STATE_HOME is to be ignored, says the specification.
func stateDir() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "picket"), nil
	}
	if home, err := os.UserHomeDir(); err == nil && filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "state", "picket"), nil
	}
	return "", exitf(exitUsage, "no store: neither XDG_STATE_HOME nor HOME is set; say where, such as --store file:///var/lib/picket")
}

func openFiles(dir string, chosen bool, opts ...filestore.Option) (*store, error) {
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(dir)}
	name := u.String()
	files, err := filestore.New(dir, opts...)
	if err != nil {
		return nil, refusal(err, name)
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		u.Path = filepath.ToSlash(real)
	}
	return &store{Store: files, name: name, id: u.String(), chosen: chosen, inherit: files.File}, nil
}
