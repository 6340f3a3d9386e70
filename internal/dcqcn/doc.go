// Package dcqcn is the congestion control of RoCE v2 networks, as published: Zhu et
// al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015. It has no
// input or output and never looks at a clock.
//
// A switch whose queue grows marks packets (ECN). The end that receives them tells
// their sender so, seldom ([Notifier], the paper's notification point), by a congestion
// notification packet. The sender lowers the rate of that flow, and raises it again
// while it hears nothing ([Rate], the reaction point).
//
// The paper supposes a network that loses nothing. Where packets are lost all the
// same, [Rate.Lost] halves the rate, as RFC 5681 does the window.
package dcqcn
