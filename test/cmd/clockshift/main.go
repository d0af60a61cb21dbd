//go:build linux && amd64

// Command clockshift runs a program whose wall clock is wrong: `clockshift 1.5s PROGRAM ARGUMENT …` runs it
// 1.5 s in the future. It changes, in the memory of that process alone and before its first instruction, the
// function by which programs ask the kernel for the time without a system call. Timers and the monotonic clock go
// as always. Signals to the process group reach the program, whose exit status it returns. It is for tests only.
package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// exitFailed is the status when there was no program to return one.
const exitFailed = 125

func main() {
	code, err := run(os.Args[1:])
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "clockshift:", err)
	}
	os.Exit(code)
}

func run(args []string) (int, error) {
	if len(args) < 2 {
		return exitFailed, errors.New("usage: clockshift OFFSET PROGRAM [ARGUMENT ...]")
	}
	offset, err := time.ParseDuration(args[0])
	if err != nil {
		return exitFailed, fmt.Errorf("offset: %w", err)
	}
	// Signals are the program's business; SIGKILL takes it along.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	runtime.LockOSThread() // one thread traces, and is the parent whose end the program follows
	cmd := exec.Command(args[1], args[2:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return exitFailed, err
	}
	pid := cmd.Process.Pid
	err = shift(pid, offset)
	if err == nil {
		err = unix.PtraceDetach(pid)
	}
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return exitFailed, err
	}
	_ = cmd.Wait()
	if status, isStatus := cmd.ProcessState.Sys().(syscall.WaitStatus); isStatus && status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return cmd.ProcessState.ExitCode(), nil
}

// shift changes the clock of a process that has stopped at its first instruction.
func shift(pid int, offset time.Duration) error {
	var status unix.WaitStatus
	if _, err := unix.Wait4(pid, &status, 0, nil); err != nil {
		return fmt.Errorf("wait for the program to be there: %w", err)
	}
	if !status.Stopped() {
		return fmt.Errorf("the program did not stop at its start: %#x", status)
	}
	base, err := vdso(pid)
	if err != nil {
		return err
	}
	image, err := memory(pid, base)
	if err != nil {
		return err
	}
	at, size, err := function(image, "__vdso_clock_gettime")
	if err != nil {
		return err
	}
	text := clockGettime(offset)
	if uint64(len(text)) > size {
		return fmt.Errorf("the kernel's clock_gettime has %d bytes, and %d are to take their place", size, len(text))
	}
	if _, err := unix.PtracePokeText(pid, base+uintptr(at), text); err != nil {
		return fmt.Errorf("change clock_gettime: %w", err)
	}
	return nil
}

// vdso is where the kernel has put its functions.
func vdso(pid int) (uintptr, error) {
	const sysinfoEHDR, pair = 33, 16
	vector, err := os.ReadFile(fmt.Sprintf("/proc/%d/auxv", pid))
	if err != nil {
		return 0, err
	}
	for ; len(vector) >= pair; vector = vector[pair:] {
		if binary.LittleEndian.Uint64(vector) == sysinfoEHDR {
			return uintptr(binary.LittleEndian.Uint64(vector[8:])), nil
		}
	}
	return 0, errors.New("the kernel gives this process no functions of its own")
}

// memory reads a page or two from there on, as far as they go.
func memory(pid int, base uintptr) ([]byte, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	const page = 4096
	var image []byte
	for one := make([]byte, page); ; {
		if _, err := f.ReadAt(one, int64(base)+int64(len(image))); err != nil {
			break // the end of the mapping
		}
		image = append(image, one...)
	}
	if len(image) == 0 {
		return nil, io.ErrUnexpectedEOF
	}
	return image, nil
}

// function is where one of the kernel's is, from its image's begin on, and how long.
func function(image []byte, name string) (at, size uint64, err error) {
	file, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return 0, 0, fmt.Errorf("read the kernel's functions: %w", err)
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return 0, 0, fmt.Errorf("read the kernel's functions: %w", err)
	}
	for i := range symbols {
		if symbols[i].Name == name {
			return symbols[i].Value, symbols[i].Size, nil
		}
	}
	return 0, 0, fmt.Errorf("the kernel has no %s", name)
}

// clockGettime is the machine code of the system call, after which CLOCK_REALTIME is moved.
func clockGettime(offset time.Duration) []byte {
	seconds := offset / time.Second
	nanos := offset % time.Second
	if nanos < 0 {
		seconds, nanos = seconds-1, nanos+time.Second
	}
	text := []byte{
		0xb8, 0xe4, 0, 0, 0, // mov eax, 228 (clock_gettime)
		0x0f, 0x05, // syscall
		0x85, 0xff, // test edi, edi (CLOCK_REALTIME?)
		0x75, 0x32, // jne done
		0x48, 0xb9, // mov rcx, seconds
	}
	text = binary.LittleEndian.AppendUint64(text, uint64(seconds))
	text = append(text,
		0x48, 0x01, 0x0e, // add [rsi], rcx
		0x48, 0xb9, // mov rcx, nanos
	)
	text = binary.LittleEndian.AppendUint64(text, uint64(nanos))
	return append(text,
		0x48, 0x03, 0x4e, 0x08, // add rcx, [rsi+8]
		0x48, 0x81, 0xf9, 0x00, 0xca, 0x9a, 0x3b, // cmp rcx, 1000000000
		0x72, 0x0a, // jb store
		0x48, 0x81, 0xe9, 0x00, 0xca, 0x9a, 0x3b, // sub rcx, 1000000000
		0x48, 0xff, 0x06, // inc qword [rsi]
		0x48, 0x89, 0x4e, 0x08, // store: mov [rsi+8], rcx
		0xc3, // done: ret
	)
}
