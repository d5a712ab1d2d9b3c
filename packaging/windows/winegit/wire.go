package main

// addressFile lies beside the half for Windows and says where the other listens.
const addressFile = "winegit.address"

// question is what git is asked; its input follows.
type question struct {
	Args, Env []string
	Dir       string
}

// part is some of what git said, or how it ended.
type part struct {
	Out, Err []byte
	Exit     *int
}
