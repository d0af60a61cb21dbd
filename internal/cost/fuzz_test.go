package cost_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/internal/alloctest"
	"github.com/kinesin-io/kinesin/internal/cost"
)

func FuzzReadPrices(f *testing.F) {
	f.Add(cost.DefaultPrices)
	for _, text := range []string{
		"", "{}", "currency: [", "a: &a [x]\nb: *a", "dynamodb: {write_per_million: .nan}", strings.Repeat("[", 20_000), strings.Repeat("a: ", 20_000),
		"a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\ncurrency: [*c,*c,*c,*c,*c,*c,*c]",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var prices cost.Prices
		var err error
		alloctest.AtMost(t, uint64(1<<20+512*min(len(text), 64<<10)), func() { prices, err = cost.ReadPrices(bytes.NewReader(text)) })
		switch {
		case err != nil && !errors.Is(err, cost.ErrPrices):
			t.Errorf("refused with %v", err)
		case err == nil && !(prices.DynamoDB.WritePerMillion > 0):
			t.Errorf("accepted: %+v", prices)
		}
	})
}
