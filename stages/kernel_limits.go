package stages

import (
	"context"
	"fmt"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/evaluate"
	"github.com/weighmaster/weighmaster/stages/isolation"
)

// acquireLimits is what the check of acquired files rests on.
func acquireLimits() []kernels.Limit {
	return []kernels.Limit{
		{What: "the listing is believed as the publisher's word: bytes that fit a wrong listing pass, and the commit's tree is not walked", Probe: func(context.Context) error {
			return listedAs(func(l *listed) { l.path = "another-model.bin" })
		}},
		{What: "a git blob id is SHA-1: a file that only has one passes on it and is bound to later reads by our own SHA-256", Probe: func(context.Context) error {
			return listedAs(func(l *listed) { l.sha256 = "" })
		}},
	}
}

// listedAs judges a file against a changed listing of it and says what was found.
func listedAs(change func(*listed)) error {
	sums, err := sumsOf([]byte("weights"))
	if err != nil {
		return err
	}
	want := listed{path: "model.bin", size: sums.Size, sha256: sums.SHA256, gitBlob: sums.GitBlob}
	change(&want)
	if found := judgeFile(want, sums, nil); len(found) > 0 {
		return fmt.Errorf("found: %s", found[0])
	}
	return nil
}

// reloadLimits is what a reload does not show.
func reloadLimits() []kernels.Limit {
	return []kernels.Limit{
		{What: "the box denies the network and nothing else: a box in which files are readable is still judged closed", Probe: func(context.Context) error {
			v := isolation.Judge(isolation.Seccomp, []isolation.Attempt{{Address: "beacon", Result: "connected"}},
				[]isolation.Attempt{{Address: "beacon", Result: "EPERM"}, {Address: isolation.Outside, Result: "EPERM"}})
			if !v.Denied {
				return fmt.Errorf("judged open: %s", v.Statement)
			}
			return nil
		}},
		{What: "the answers are to the fixtures asked, no more: see the kernel evaluate", Probe: func(ctx context.Context) error {
			return kernels.Unseen(evaluate.Kernel().SelfCheck(ctx))
		}},
	}
}
