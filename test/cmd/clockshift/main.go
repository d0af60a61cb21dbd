//go:build linux && amd64

// Command clockshift runs a program whose wall clock is wrong: `clockshift 1.5s PROGRAM ARGUMENT …` runs it
// 1.5 s in the future. It changes, in the memory of that process alone and before its first instruction, the
// function by which programs ask the kernel for the time without a system call. Timers and the monotonic
// clock go as always. With `-control FILE` before the offset it sets the clock anew whenever that file says
// another offset. Signals to the process group reach the program, whose exit status it returns. It is for
// tests only.
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
	"strings"
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
	control := ""
	if len(args) > 1 && args[0] == "-control" {
		control, args = args[1], args[2:]
	}
	if len(args) < 2 {
		return exitFailed, errors.New("usage: clockshift [-control FILE] OFFSET PROGRAM [ARGUMENT ...]")
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
	word, err := shift(pid, offset)
	if err == nil {
		err = unix.PtraceDetach(pid)
	}
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return exitFailed, err
	}
	if control != "" {
		go follow(control, pid, word)
	}
	_ = cmd.Wait()
	if status, isStatus := cmd.ProcessState.Sys().(syscall.WaitStatus); isStatus && status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return cmd.ProcessState.ExitCode(), nil
}

// shift changes the clock of a process that has stopped at its first instruction. It returns where its offset
// stands.
func shift(pid int, offset time.Duration) (word uintptr, err error) {
	var status unix.WaitStatus
	if _, err := unix.Wait4(pid, &status, 0, nil); err != nil {
		return 0, fmt.Errorf("wait for the program to be there: %w", err)
	}
	if !status.Stopped() {
		return 0, fmt.Errorf("the program did not stop at its start: %#x", status)
	}
	base, err := vdso(pid)
	if err != nil {
		return 0, err
	}
	image, err := memory(pid, base)
	if err != nil {
		return 0, err
	}
	at, size, err := function(image, "__vdso_clock_gettime")
	if err != nil {
		return 0, err
	}
	text, wordAt := clockGettime(at, offset)
	if uint64(len(text)) > size {
		return 0, fmt.Errorf("the kernel's clock_gettime has %d bytes, and %d are to take their place", size, len(text))
	}
	if _, err := unix.PtracePokeText(pid, base+uintptr(at), text); err != nil {
		return 0, fmt.Errorf("change clock_gettime: %w", err)
	}
	other, size, err := function(image, "__vdso_gettimeofday")
	if err != nil {
		return 0, err
	}
	if text = gettimeofday(other, at); uint64(len(text)) > size {
		return 0, fmt.Errorf("the kernel's gettimeofday has %d bytes, and %d are to take their place", size, len(text))
	}
	if _, err := unix.PtracePokeText(pid, base+uintptr(other), text); err != nil {
		return 0, fmt.Errorf("change gettimeofday: %w", err)
	}
	return base + uintptr(at+wordAt), nil
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

// clockGettime is the machine code of the system call, after which CLOCK_REALTIME is moved by the nanoseconds
// that follow the code. They are one word in an aligned place, so that they can be changed while the program
// runs.
func clockGettime(at uint64, offset time.Duration) (text []byte, word uint64) {
	const codeBytes, loadEnd = 53, 18
	word = codeBytes
	for (at+word)%8 != 0 {
		word++
	}
	text = []byte{
		0xb8, 0xe4, 0, 0, 0, // mov eax, 228 (clock_gettime)
		0x0f, 0x05, // syscall
		0x85, 0xff, // test edi, edi (CLOCK_REALTIME?)
		0x75, 0x29, // jne done
		0x48, 0x8b, 0x05, byte(word - loadEnd), 0, 0, 0, // mov rax, [rip+word]
		0x48, 0x03, 0x46, 0x08, // add rax, [rsi+8]
		0xb9, 0x00, 0xca, 0x9a, 0x3b, // mov ecx, 1000000000
		0x48, 0x99, // cqo
		0x48, 0xf7, 0xf9, // idiv rcx
		0x48, 0x85, 0xd2, // test rdx, rdx
		0x79, 0x06, // jns store
		0x48, 0x01, 0xca, // add rdx, rcx
		0x48, 0xff, 0xc8, // dec rax
		0x48, 0x89, 0x56, 0x08, // store: mov [rsi+8], rdx
		0x48, 0x01, 0x06, // add [rsi], rax
		0x31, 0xc0, // xor eax, eax
		0xc3, // done: ret
	}
	text = append(text, make([]byte, word-codeBytes)...)
	return binary.LittleEndian.AppendUint64(text, uint64(offset)), word
}

// gettimeofday is the machine code of the older call, which Node makes: that of clockGettime, which leaves rsi alone, with
// microseconds in place of nanoseconds.
func gettimeofday(at, clockGettime uint64) []byte {
	const callEnd = 10
	text := []byte{
		0x48, 0x89, 0xfe, // mov rsi, rdi
		0x31, 0xff, // xor edi, edi (CLOCK_REALTIME)
		0xe8, 0, 0, 0, 0, // call clockGettime
		0x48, 0x8b, 0x46, 0x08, // mov rax, [rsi+8]
		0x48, 0x99, // cqo
		0xb9, 0xe8, 0x03, 0x00, 0x00, // mov ecx, 1000
		0x48, 0xf7, 0xf9, // idiv rcx
		0x48, 0x89, 0x46, 0x08, // mov [rsi+8], rax
		0x31, 0xc0, // xor eax, eax
		0xc3, // ret
	}
	binary.LittleEndian.PutUint32(text[callEnd-4:], uint32(clockGettime-at-callEnd))
	return text
}

// follow sets the clock of the program again and again, to the offset that a file says, until the program has
// ended.
func follow(control string, pid int, word uintptr) {
	const every = 10 * time.Millisecond
	memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_WRONLY, 0)
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "clockshift:", err)
		return
	}
	defer func() { _ = memory.Close() }()
	for said := ""; ; time.Sleep(every) {
		content, err := os.ReadFile(control)
		text := strings.TrimSpace(string(content))
		if err != nil || text == said {
			continue
		}
		offset, err := time.ParseDuration(text)
		if err != nil {
			continue // it is being written
		}
		if _, err := memory.WriteAt(binary.LittleEndian.AppendUint64(nil, uint64(offset)), int64(word)); err != nil {
			return // it has ended
		}
		said = text
	}
}
