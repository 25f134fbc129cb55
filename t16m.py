import numpy as np

G2 = np.array([[0.6, 0.8], [-0.8, 0.6]])


def e00(x, z, v, V):
    s = 0.0
    for i in range(len(z) - 2):
        Z = z[i : i + 2]
        Yw = x[i : i + 2]
        s += np.sum(Z @ v)
    return s


def e01(x, z, v, V):
    s = 0.0
    for i in range(len(z) - 2):
        Z = z[i : i + 2]
        Yw = x[i : i + 2]
        s += np.sum(Yw @ Z)
    return s


def e02(x, z, v, V):
    s = 0.0
    for i in range(len(z) - 2):
        Z = z[i : i + 2]
        Yw = x[i : i + 2]
        s += np.sum(Z.T @ Yw)
    return s


def e03(x, z, v, V):
    s = 0.0
    for i in range(len(z) - 2):
        Z = z[i : i + 2]
        Yw = x[i : i + 2]
        s += np.sum(Z @ V)
    return s


def e04(x, z, v, V):
    s = 0.0
    for i in range(len(z) - 2):
        Z = z[i : i + 2]
        Yw = x[i : i + 2]
        s += np.sum(Z @ Z.T)
    return s


def e05(x, z, v, V):
    s = 0.0
    for i in range(len(z) - 2):
        Z = z[i : i + 2]
        Yw = x[i : i + 2]
        s += np.sum(Z.T @ Z)
    return s


def e06(x, z, v, V):
    s = 0.0
    for i in range(len(z) - 2):
        Z = z[i : i + 2]
        Yw = x[i : i + 2]
        s += np.sum(G2 @ Z)
    return s


def e07(x, z, v, V):
    s = 0.0
    for i in range(len(z) - 2):
        Z = z[i : i + 2]
        Yw = x[i : i + 2]
        s += np.sum(np.tensordot(Z, V, axes=1))
    return s


def e08(x, z, v, V):
    s = 0.0
    for i in range(len(z) - 2):
        Z = z[i : i + 2]
        Yw = x[i : i + 2]
        s += np.sum(np.tensordot(G2, Z, axes=1))
    return s


def e09(x, z, v, V):
    s = 0.0
    for i in range(len(z) - 2):
        Z = z[i : i + 2]
        Yw = x[i : i + 2]
        s += np.sum(np.repeat(Z, 2, axis=0))
    return s


def e10(x, z, v, V):
    s = 0.0
    for i in range(len(z) - 2):
        Z = z[i : i + 2]
        Yw = x[i : i + 2]
        s += np.sum(Z + G2[:, :1])
    return s


def e11(x, z, v, V):
    s = 0.0
    for i in range(len(z) - 2):
        Z = z[i : i + 2]
        Yw = x[i : i + 2]
        s += np.sum(np.flip(Z, 0))
    return s


def e12(x, z, v, V):
    s = 0.0
    for i in range(len(z) - 2):
        Z = z[i : i + 2]
        Yw = x[i : i + 2]
        s += np.sum(np.abs(Z).argsort(axis=0))
    return s


def e13(x, z, v, V):
    s = 0.0
    for i in range(len(z) - 2):
        Z = z[i : i + 2]
        Yw = x[i : i + 2]
        s += np.sum(np.sort(Z, axis=0))
    return s


def e14(x, z, v, V):
    s = 0.0
    for i in range(len(z) - 2):
        Z = z[i : i + 2]
        Yw = x[i : i + 2]
        s += np.sum(np.linalg.eigvalsh(Z @ Z.T))
    return s


def e15(x, z, v, V):
    s = 0.0
    for i in range(len(z) - 2):
        Z = z[i : i + 2]
        Yw = x[i : i + 2]
        s += np.sum(np.linalg.solve(G2, Z))
    return s


def e16(x, z, v, V):
    s = 0.0
    for i in range(len(z) - 2):
        Z = z[i : i + 2]
        Yw = x[i : i + 2]
        s += np.sum(np.linalg.inv(Z @ Z.T))
    return s


def e17(x, z, v, V):
    s = 0.0
    for i in range(len(z) - 2):
        Z = z[i : i + 2]
        Yw = x[i : i + 2]
        s += np.sum(np.outer(Yw, v))
    return s


def e18(x, z, v, V):
    s = 0.0
    for i in range(len(z) - 2):
        Z = z[i : i + 2]
        Yw = x[i : i + 2]
        s += np.sum(np.kron(Yw, v))
    return s


def e19(x, z, v, V):
    s = 0.0
    for i in range(len(z) - 2):
        Z = z[i : i + 2]
        Yw = x[i : i + 2]
        s += np.sum(np.concatenate([Z, G2 @ Z]))
    return s


def e20(x, z, v, V):
    s = 0.0
    for i in range(len(z) - 2):
        Z = z[i : i + 2]
        Yw = x[i : i + 2]
        s += np.sum((G2 @ Z)[0])
    return s


def e21(x, z, v, V):
    s = 0.0
    for i in range(len(z) - 2):
        Z = z[i : i + 2]
        Yw = x[i : i + 2]
        s += np.sum((G2[:, :, None] * Z[None]).sum(axis=1))
    return s


def e22(x, z, v, V):
    s = 0.0
    for i in range(len(z) - 2):
        Z = z[i : i + 2]
        Yw = x[i : i + 2]
        s += np.sum(np.inner(Z, Z))
    return s


def e23(x, z, v, V):
    s = 0.0
    for i in range(len(z) - 2):
        Z = z[i : i + 2]
        Yw = x[i : i + 2]
        s += np.sum(np.cov(Z))
    return s


def e24(x, z, v, V):
    s = 0.0
    for i in range(len(z) - 2):
        Z = z[i : i + 2]
        Yw = x[i : i + 2]
        s += np.sum(np.linalg.det(Z @ Z.T))
    return s


def e25(x, z, v, V):
    s = 0.0
    for i in range(len(z) - 2):
        Z = z[i : i + 2]
        Yw = x[i : i + 2]
        s += np.sum(z[:, :2].T @ z)
    return s


def e26(x, z, v, V):
    s = 0.0
    for i in range(len(z) - 2):
        Z = z[i : i + 2]
        Yw = x[i : i + 2]
        s += np.sum(z[:2] @ z[:2].T)
    return s


def e27(x, z, v, V):
    s = 0.0
    for i in range(len(z) - 2):
        Z = z[i : i + 2]
        Yw = x[i : i + 2]
        s += np.sum(V.T @ Z.T)
    return s


def e28(x, z, v, V):
    s = 0.0
    for i in range(len(z) - 2):
        Z = z[i : i + 2]
        Yw = x[i : i + 2]
        s += np.sum(G2 @ Z[:, :2])
    return s


def e29(x, z, v, V):
    s = 0.0
    for i in range(len(z) - 2):
        Z = z[i : i + 2]
        Yw = x[i : i + 2]
        s += np.sum(G2 @ Yw)
    return s


def e30(x, z, v, V):
    s = 0.0
    for i in range(len(z) - 2):
        Z = z[i : i + 2]
        Yw = x[i : i + 2]
        s += np.sum(np.einsum("i,ij->j", Yw, Z))
    return s


def e31(x, z, v, V):
    s = 0.0
    for i in range(len(z) - 2):
        Z = z[i : i + 2]
        Yw = x[i : i + 2]
        s += np.sum(np.median(Z, axis=0))
    return s


def e32(x, z, v, V):
    s = 0.0
    for i in range(len(z) - 2):
        Z = z[i : i + 2]
        Yw = x[i : i + 2]
        s += np.sum(z[i : i + 3].T @ x[i : i + 3])
    return s


def e33(x, z, v, V):
    s = 0.0
    for i in range(len(z) - 2):
        Z = z[i : i + 2]
        Yw = x[i : i + 2]
        s += np.sum(z[i : i + 2] @ v + z[i + 1 : i + 3] @ v)
    return s


from t16 import _B

ARGS = {n: _B for n in list(globals()) if n[0] == "e" and n[1:].isdigit()}
