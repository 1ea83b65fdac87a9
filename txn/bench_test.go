package txn

import "testing"

func BenchmarkParseAddress(b *testing.B) {
	for name, text := range map[string]string{
		"lower":  "0x7f5eb5bb5cf88cfcee9613368636f458800e62cb",
		"mixed":  "0x7F5EB5bB5cF88cfcEe9613368636f458800e62CB",
		"digits": "0x1111111111111111111111111111111111111111",
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ParseAddress(text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
