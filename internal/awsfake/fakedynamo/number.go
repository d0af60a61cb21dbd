package fakedynamo

import (
	"encoding/binary"
	"math/big"
	"strconv"
	"strings"
)

// The range of numbers.
const (
	numberDigitsMax = 38
	numberExpMax    = 126
	numberExpMin    = -129
)

// number is ±0.digits × 10^exp, without zeros at either end of the digits; zero has none.
type number struct {
	negative bool
	digits   string
	exp      int
}

func parseNumber(s string) (number, error) {
	bad := invalid("The parameter cannot be converted to a numeric value: %s", s)
	n, text := number{}, s
	if rest, found := strings.CutPrefix(text, "-"); found {
		n.negative, text = true, rest
	} else {
		text = strings.TrimPrefix(text, "+")
	}
	if at := strings.IndexAny(text, "eE"); at >= 0 {
		exp, err := strconv.Atoi(text[at+1:])
		if err != nil {
			return n, bad
		}
		n.exp, text = exp, text[:at]
	}
	whole, fraction, _ := strings.Cut(text, ".")
	if whole+fraction == "" || strings.Trim(whole+fraction, "0123456789") != "" {
		return n, bad
	}
	significant := strings.TrimLeft(whole+fraction, "0")
	n.exp += len(whole) - (len(whole+fraction) - len(significant))
	n.digits = strings.TrimRight(significant, "0")
	if n.digits == "" {
		return number{}, nil
	}
	switch {
	case len(n.digits) > numberDigitsMax:
		return n, invalid("Attempting to store more than 38 significant digits in a Number")
	case n.exp > numberExpMax:
		return n, invalid("Number overflow. Attempting to store a number with magnitude larger than supported range")
	case n.exp < numberExpMin:
		return n, invalid("Number underflow. Attempting to store a number with magnitude smaller than supported range")
	}
	return n, nil
}

// String is the form in which the service returns numbers.
func (n number) String() string {
	if n.digits == "" {
		return "0"
	}
	sign := ""
	if n.negative {
		sign = "-"
	}
	switch {
	case n.exp <= 0:
		return sign + "0." + strings.Repeat("0", -n.exp) + n.digits
	case n.exp >= len(n.digits):
		return sign + n.digits + strings.Repeat("0", n.exp-len(n.digits))
	}
	return sign + n.digits[:n.exp] + "." + n.digits[n.exp:]
}

// order is a string that sorts like the number.
func (n number) order() string {
	const bias = 1 << 14
	if n.digits == "" {
		return "\x01"
	}
	key := binary.BigEndian.AppendUint16([]byte{2}, uint16(bias+n.exp))
	key = append(key, n.digits...)
	if n.negative {
		for i := range key {
			key[i] = ^key[i]
		}
		key[0] = 0
		key = append(key, 0xff)
	}
	return string(key)
}

func (n number) bytes() int {
	size := (len(n.digits)+1)/2 + 1
	if n.negative {
		size++
	}
	return size
}

// add adds whole numbers, the only ones that the stand-in does arithmetic with.
func add(a, b string, sign int64) (string, error) {
	x, okX := new(big.Int).SetString(a, 10)
	y, okY := new(big.Int).SetString(b, 10)
	if !okX || !okY {
		return "", notModelled("arithmetic with fractions: %s, %s", a, b)
	}
	sum, err := parseNumber(x.Add(x, y.Mul(y, big.NewInt(sign))).String())
	return sum.String(), err
}
