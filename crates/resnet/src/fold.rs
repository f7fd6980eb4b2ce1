//! The arithmetic of the conversion.

use super::keras::{Layer, Tensor, Weights};

/// The weights of a convolution, as ONNX wants them.
#[derive(Debug, PartialEq)]
pub(super) struct Convolution {
    /// Channels that come out, channels that go in, height, width.
    pub(super) shape: [usize; 4],
    pub(super) kernel: Vec<f32>,
    pub(super) bias: Vec<f32>,
}

impl Convolution {
    /// Reads the weights of a layer. Keras has them by height, width, in, out.
    pub(super) fn read(layer: &Layer, weights: &Weights) -> Result<Self, String> {
        let kernel = weights.get(&layer.name, "kernel")?;
        let [height, width, inner, outer] = *kernel.shape else {
            return Err(layer.unknown("kernel"));
        };
        let size = layer.pair("kernel_size")?.map(usize::try_from);
        if size != [Ok(height), Ok(width)] {
            return Err(layer.unknown("kernel_size"));
        }
        let bias = bias(layer, weights, outer)?;
        let mut turned = Vec::with_capacity(kernel.values.len());
        for out in 0..outer {
            for channel in 0..inner {
                for place in 0..height * width {
                    turned.push(kernel.values[(place * inner + channel) * outer + out]);
                }
            }
        }
        Ok(Self { shape: [outer, inner, height, width], kernel: turned, bias: bias.values })
    }

    /// The network was trained with blue first; images have red first.
    pub(super) fn exchange_red_and_blue(&mut self) {
        let [_, inner, height, width] = self.shape;
        let plane = height * width;
        for of_one in self.kernel.chunks_exact_mut(inner * plane) {
            let planes: Vec<Vec<f32>> = of_one.chunks_exact(plane).map(<[f32]>::to_vec).collect();
            for (to, from) in of_one.chunks_exact_mut(plane).zip(planes.iter().rev()) {
                to.copy_from_slice(from);
            }
        }
    }

    /// Zeros so that as many values come out as go in; only even ones are known.
    pub(super) fn same_padding(&self) -> Option<[i64; 4]> {
        let [_, _, height, width] = self.shape;
        let half = |len: usize| match len % 2 {
            1 => i64::try_from(len / 2).ok(),
            _ => None,
        };
        let (high, wide) = (half(height)?, half(width)?);
        Some([high, wide, high, wide])
    }
}

/// A convolution with the normalisation behind it inside: `(x - mean) * gamma / sqrt(variance +
/// epsilon) + beta` is a factor and a sum for each channel, and so is a convolution already.
pub(super) fn normalised(
    mut convolution: Convolution,
    norm: &Layer,
    weights: &Weights,
) -> Result<Convolution, String> {
    let epsilon = norm.number("epsilon")?;
    let outer = convolution.bias.len();
    let get = |name| channels(norm, weights.get(&norm.name, name)?, outer);
    let (gamma, beta) = (get("gamma")?, get("beta")?);
    let (mean, variance) = (get("moving_mean")?, get("moving_variance")?);
    let of_one = convolution.kernel.len() / outer.max(1);
    for (channel, kernel) in convolution.kernel.chunks_exact_mut(of_one.max(1)).enumerate() {
        let factor = gamma[channel] / (variance[channel] + epsilon).sqrt();
        for value in kernel {
            *value = narrow(f64::from(*value) * factor);
        }
        let bias = &mut convolution.bias[channel];
        *bias = narrow((f64::from(*bias) - mean[channel]) * factor + beta[channel]);
    }
    Ok(convolution)
}

/// The weights of a layer in which everything is connected: kernel and bias.
pub(super) fn dense(layer: &Layer, weights: &Weights) -> Result<(Tensor, Tensor), String> {
    let kernel = weights.get(&layer.name, "kernel")?;
    let [_, outer] = *kernel.shape else { return Err(layer.unknown("kernel")) };
    let bias = bias(layer, weights, outer)?;
    Ok((kernel, bias))
}

fn bias(layer: &Layer, weights: &Weights, outer: usize) -> Result<Tensor, String> {
    if layer.config.get("use_bias").is_some_and(|it| it == false) {
        return Ok(Tensor { shape: vec![outer], values: vec![0.0; outer] });
    }
    let bias = weights.get(&layer.name, "bias")?;
    match bias.shape == [outer] {
        true => Ok(bias),
        false => Err(layer.unknown("bias")),
    }
}

fn channels(layer: &Layer, tensor: Tensor, outer: usize) -> Result<Vec<f64>, String> {
    match tensor.shape == [outer] {
        true => Ok(tensor.values.into_iter().map(f64::from).collect()),
        false => Err(layer.unknown("channels")),
    }
}

/// Weights have 32 bits; the rest is rounding.
fn narrow(value: f64) -> f32 {
    value as f32
}
