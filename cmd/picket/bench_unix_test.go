//go:build unix

package main

import (
	"bufio"
	"bytes"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"
)

// What is promised of `picket run` on files (issue 2, numbers).
const (
	startRuns   = 50
	startMargin = 15 * time.Millisecond
	waiterRSS   = 25 << 20
)

// BenchmarkRunStart measures the time from the start of the program to the first word of its child, in runs that alternate with flock(1), and compares the medians.
func BenchmarkRunStart(b *testing.B) {
	flock, err := exec.LookPath("flock")
	if err != nil {
		b.Fatal("flock is missing: apt-get install util-linux")
	}
	dir := b.TempDir()
	locks := "file://" + dir + "/locks"
	var ours, theirs []time.Duration
	for b.Loop() {
		ours, theirs = ours[:0], theirs[:0]
		for range startRuns {
			ours = append(ours, firstWord(b, binary, "run", "--store", locks, "k", "--", "echo", "up"))
			theirs = append(theirs, firstWord(b, flock, dir+"/flock", "echo", "up"))
		}
	}
	p, f := median(ours), median(theirs)
	b.ReportMetric(0, "ns/op") // of no meaning here
	b.ReportMetric(ms(p), "picket-ms")
	b.ReportMetric(ms(f), "flock-ms")
	b.ReportMetric(ms(p-f), "difference-ms")
	if p-f > startMargin {
		b.Errorf("the child of picket starts %s later than that of flock, more than %s", p-f, startMargin)
	}
}

func firstWord(b *testing.B, name string, args ...string) time.Duration {
	b.Helper()
	cmd := exec.Command(name, args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	word, err := bufio.NewReader(out).ReadString('\n')
	took := time.Since(began)
	if err != nil || word != "up\n" {
		b.Fatalf("%s said %q: %v", name, word, err)
	}
	if err := cmd.Wait(); err != nil {
		b.Fatal(err)
	}
	return took
}

func median(d []time.Duration) time.Duration {
	d = slices.Sorted(slices.Values(d))
	return d[len(d)/2]
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// BenchmarkWaitingMemory measures the resident memory of a picket that has waited for a second.
func BenchmarkWaitingMemory(b *testing.B) {
	dir := b.TempDir()
	locks := "file://" + dir + "/locks"
	holder := exec.Command(binary, "run", "--store", locks, "k", "--", "sh", "-c", "echo up; read x")
	stdin, err := holder.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := holder.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		b.Fatal(err)
	}
	if word, err := bufio.NewReader(out).ReadString('\n'); err != nil || word != "up\n" {
		b.Fatalf("the holder said %q: %v", word, err)
	}
	var most int
	for b.Loop() {
		waiter := exec.Command(binary, "run", "-q", "--store", locks, "k", "true")
		if err := waiter.Start(); err != nil {
			b.Fatal(err)
		}
		time.Sleep(time.Second)
		most = max(most, resident(b, waiter.Process.Pid))
		_ = waiter.Process.Kill()
		_ = waiter.Wait() // it was killed
	}
	_ = stdin.Close()
	_ = holder.Wait() // read failed, as wanted
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(most)/(1<<20), "MiB")
	if most > waiterRSS {
		b.Errorf("a waiting picket has %d bytes resident, more than %d", most, waiterRSS)
	}
}

// resident returns the bytes of memory that a process has.
func resident(b *testing.B, pid int) int {
	b.Helper()
	text, err := exec.Command("ps", "-o", "rss=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		b.Fatal(err)
	}
	kib, err := strconv.Atoi(string(bytes.TrimSpace(text)))
	if err != nil {
		b.Fatal(err)
	}
	return kib << 10
}
