package verify

// numbers gives every check its number. Numbers are stable: a check that is no
// longer made leaves its number unused, a new one takes the next. What each
// checks stands in schemas/verify.md. 1 to 19 look at the evidence itself; from
// 20 on they are the policy's rules.
var numbers = map[string]int{
	"file":            1,
	"checkpoint":      2,
	"bundles":         3,
	"inclusion":       4,
	"signatures":      5,
	"name":            6,
	"objects":         7,
	"policy document": 8,
	"decision":        9,
	"withdrawn":       10,

	"source":       20,
	"chain":        21,
	"signers":      22,
	"results":      23,
	"checks":       24,
	"controls":     25,
	"gates":        26,
	"coverage":     27,
	"tensor-types": 28,
	"licence":      29,
	"accepted":     30,
	"delivered":    31,
	"reloaded":     32,
	"completed":    33,
	"scans":        34,
	"notices":      35,
	"review":       36,
	"fresh":        37,
	"standing":     38,
	"witnesses":    39,
	"boxed":        40,
	"built":        41,
	"calibrated":   42,
	"parity":       43,
	"placed":       44,
	"alone":        45,
	"released":     46,
}

// Number gives the number of a check by its name.
func Number(check string) (int, bool) {
	n, ok := numbers[check]
	return n, ok
}
