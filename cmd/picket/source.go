package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strings"
)

// source is where the URL of the store was found.
type source struct {
	name    string // for messages
	url     string // may hold a password, so no message repeats it
	exposed bool   // everybody on the machine can read it with ps
}

const (
	storeVariable     = "PICKET_STORE"
	storeFileVariable = "PICKET_STORE_FILE"
	prefixVariable    = "PICKET_REDIS_PREFIX"
)

// source looks at flags first, then at the environment. Its URL is empty if neither says anything.
func (p *program) source() (source, error) {
	file, env := os.Getenv(storeFileVariable), os.Getenv(storeVariable)
	switch {
	case p.given("store") && p.storeURL == "":
		return source{}, exitf(exitUsage, "--store is empty; leave it out for the default")
	case p.given("store-file") && p.storeFile == "":
		return source{}, exitf(exitUsage, "--store-file is empty; leave it out for the default")
	case p.storeURL != "" && p.storeFile != "":
		return source{}, exitf(exitUsage, "--store and --store-file exclude each other")
	case p.storeURL != "":
		return source{name: "--store", url: p.storeURL, exposed: true}, nil
	case p.storeFile != "":
		return readSource("--store-file", p.storeFile)
	case env != "" && file != "":
		return source{}, exitf(exitUsage, "%s and %s exclude each other; unset one", storeVariable, storeFileVariable)
	case env != "":
		return source{name: storeVariable, url: env}, nil
	case file != "":
		return readSource(storeFileVariable, file)
	}
	return source{}, nil
}

// longestURL is far beyond what anybody writes into the file.
const longestURL = 64 << 10

func readSource(name, file string) (source, error) {
	refuse := func(err error) (source, error) {
		if e, ok := errors.AsType[*fs.PathError](err); ok {
			err = e.Err
		}
		return source{}, exitf(exitUsage, "%s %s: %s", name, printable(file), err)
	}
	f, err := os.Open(file)
	if err != nil {
		return refuse(err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, longestURL+1))
	if err != nil {
		return refuse(err)
	}
	url := strings.TrimSpace(string(text))
	if url == "" || len(text) > longestURL || strings.ContainsAny(url, "\r\n") {
		return refuse(errors.New("want one line with a URL"))
	}
	info, err := f.Stat()
	if err != nil {
		return refuse(err)
	}
	if err := private(info.Mode(), url); err != nil {
		return refuse(err)
	}
	return source{name: name, url: url}, nil
}

// private refuses a file that gives its password away, or that somebody else can point to another store. Its group is the owner's business. The mode says nothing
// on Windows.
func private(mode fs.FileMode, url string) error {
	const read, write = 0o004, 0o002
	switch {
	case runtime.GOOS == "windows":
	case mode&write != 0:
		return fmt.Errorf("everybody can write the file (mode %#o): chmod o-w", mode.Perm())
	case mode&read != 0 && secret(url):
		return fmt.Errorf("everybody can read the password in the file (mode %#o): chmod o-r", mode.Perm())
	}
	return nil
}

// secret reports whether a URL may hold a password; in doubt it does.
func secret(url string) bool {
	return strings.Contains(url, "@") || strings.Contains(url, sentinelPassword)
}
