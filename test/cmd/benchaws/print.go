package main

import (
	"fmt"
	"text/tabwriter"
	"time"
)

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func (b *bench) note(format string, args ...any) {
	_, _ = fmt.Fprintf(b.progress, format+"\n", args...)
}

func (b *bench) title(mode, beside string) {
	b.table = tabwriter.NewWriter(b.out, 0, 0, 2, ' ', 0)
	b.line("%s\tkinesin\t%s", mode, beside)
}

func (b *bench) line(format string, args ...any) { _, _ = fmt.Fprintf(b.table, format+"\n", args...) }

func (b *bench) flush() error {
	if err := b.table.Flush(); err != nil {
		return fmt.Errorf("write the figures: %w", err)
	}
	_, err := fmt.Fprintln(b.out)
	return err
}
