package main

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/picket-go/picket"
)

// The codes of `picket help exit-codes`. 64, 69, 75 and 76 are those of sysexits.h with the nearest meaning; 126 and 127 are a shell's.
const (
	exitFailed        = 1
	exitUsage         = 64
	exitUnavailable   = 69
	exitBusy          = 75
	exitLost          = 76
	exitNotExecutable = 126
	exitNotFound      = 127
	exitSignal        = 128 // plus the signal's number
)

// exitError ends the program with a code. An empty text says nothing: the code is the job's own, or --quiet was given.
type exitError struct {
	code int
	text string
	end  func() // if set, ends the process by the signal that the code stands for; it returns if it cannot
}

func (e *exitError) Error() string { return e.text }

func exitf(code int, format string, args ...any) error {
	return &exitError{code: code, text: fmt.Sprintf(format, args...)}
}

// report says on stderr what err means and returns the code to exit with. Whatever is no exitError was found by cobra in the command line.
func report(err error, command string, stderr io.Writer) int {
	if err == nil {
		return 0
	}
	exit, ok := errors.AsType[*exitError](err)
	if !ok {
		exit = &exitError{code: exitUsage, text: err.Error()}
	}
	if exit.text != "" {
		say(stderr, "%s", exit.text)
	}
	if exit.end != nil {
		exit.end()
	}
	if exit.code == exitUsage && exit.text != "" {
		_, _ = fmt.Fprintf(stderr, "see %s --help\n", command) // there is nobody to tell of an error
	}
	return exit.code
}

// say prints one line of talk. That it cannot be printed is no reason to end a job.
func say(w io.Writer, format string, args ...any) {
	text := strings.TrimPrefix(fmt.Sprintf(format, args...), "picket: ")
	_, _ = fmt.Fprintln(w, "picket: "+strings.ReplaceAll(strings.TrimSpace(text), "\n", "; "))
}

// refusal is the exitError of what a store or the library answered to a request on behalf of the user, in the words of explain.
func refusal(err error, store string, explain func(error) string) error {
	if errors.Is(err, picket.ErrInvalid) {
		return exitf(exitUsage, "%s", strings.TrimPrefix(unnamed(unprefixed(err)), "invalid argument: "))
	}
	return exitf(exitUnavailable, "store %s: %s", printable(store), explain(err))
}

// explain is what err says, with what to do. What a store itself says has that already.
func explain(err error) string {
	text, told := words(err)
	if !told {
		text = unnamed(unprefixed(err))
	}
	switch {
	case errors.Is(err, picket.ErrUnsupported):
		text += ": leave the flag out, or choose another --store"
	case !told && !errors.Is(err, picket.ErrRefused):
		text += ": check that it can be reached, then try again"
	}
	return text
}

// unprefixed is the text of err, which may wrap errors of the library and of a store, with the name of the program said once.
func unprefixed(err error) string {
	text := err.Error()
	if own := ownError(err); own != nil {
		text = strings.Replace(text, own.Error(), unnamed(own.Error()), 1)
	}
	text = strings.ReplaceAll(text, "picket: store is unavailable: ", "")
	return strings.TrimPrefix(strings.ReplaceAll(text, ": picket: ", ": "), "picket: ")
}

// words is what a store itself says in err, if it does. What is around it differs between commands.
func words(err error) (text string, told bool) {
	own := ownError(err)
	if own == nil {
		return "", false
	}
	return unnamed(own.Error()), true
}

// ownError finds the error of a store: the one that knows whether anything was sent.
func ownError(err error) error {
	own, ok := errors.AsType[interface {
		error
		Unsent() bool
	}](err)
	if !ok {
		return nil
	}
	return own
}

// names are in front of what a store says: those of its package, of the call and of the key. They are for programs; the user knows what he asked for.
var names = regexp.MustCompile(`^(?:(?:picket: )?(?:store refused|store is unavailable|invalid argument): )?(?:file|redis)store: (?:[a-z]+(?: "(?:[^"\\]|\\.)*")?: )?`)

func unnamed(text string) string { return names.ReplaceAllString(text, "") }
