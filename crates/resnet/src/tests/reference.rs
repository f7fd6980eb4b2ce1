//! The tiny network once more, computed as Keras defines it: pixel by pixel, blue first, each
//! normalisation by itself, in double precision.

/// The weights of the tiny network.
pub(super) struct Reference {
    weights: Vec<(&'static str, Vec<usize>, Vec<f32>)>,
}

/// Height, width, channels, values pixel by pixel.
type Values = (usize, usize, usize, Vec<f64>);

impl Reference {
    pub(super) fn new() -> Self {
        let shapes: [(&str, &[usize]); 14] = [
            ("conv_1/kernel", &[3, 3, 3, 4]),
            ("conv_1/bias", &[4]),
            ("bn_1/gamma", &[4]),
            ("bn_1/beta", &[4]),
            ("bn_1/moving_mean", &[4]),
            ("bn_1/moving_variance", &[4]),
            ("conv_2/kernel", &[3, 3, 4, 4]),
            ("conv_2/bias", &[4]),
            ("bn_2/gamma", &[4]),
            ("bn_2/beta", &[4]),
            ("bn_2/moving_mean", &[4]),
            ("bn_2/moving_variance", &[4]),
            ("classes/kernel", &[4, 6]),
            ("classes/bias", &[6]),
        ];
        let mut seed = 12345_u32;
        let mut next = |is_variance: bool| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let unit = f32::from(u16::try_from(seed >> 16).unwrap()) / 65536.0;
            if is_variance { 0.1 + unit } else { unit - 0.45 }
        };
        let weights = shapes.map(|(name, shape)| {
            let count = shape.iter().product();
            let values = (0..count).map(|_| next(name.ends_with("variance"))).collect();
            (name, shape.to_vec(), values)
        });
        Self { weights: weights.to_vec() }
    }

    pub(super) fn weights(&self) -> &[(&'static str, Vec<usize>, Vec<f32>)] {
        &self.weights
    }

    fn get(&self, layer: &str, name: &str) -> Vec<f64> {
        let name = format!("{layer}/{name}");
        let found = self.weights.iter().find(|it| it.0 == name).unwrap();
        found.2.iter().map(|it| f64::from(*it)).collect()
    }

    /// The likelihood of each class, for an image plane by plane with red first.
    pub(super) fn answer(&self, edge: usize, planes: &[f32]) -> Vec<f64> {
        let plane = edge * edge;
        let mut image = Vec::new();
        for place in 0..plane {
            for channel in [2, 1, 0] {
                image.push(f64::from(planes[channel * plane + place]));
            }
        }
        let image = padded(&(edge, edge, 3, image));
        let first = self.norm("bn_1", self.conv("conv_1", &image, 2));
        let pool = pool(&padded(&relu(first)));
        let mut sum = self.norm("bn_2", self.conv("conv_2", &padded(&pool), 1));
        sum.3.iter_mut().zip(&pool.3).for_each(|(a, b)| *a += b);
        let (height, width, channels, values) = relu(sum);
        let mut means = vec![0.0; channels];
        for (index, value) in values.iter().enumerate() {
            means[index % channels] += value / (height as f64 * width as f64);
        }
        let (kernel, bias) = (self.get("classes", "kernel"), self.get("classes", "bias"));
        let dot = |class: usize| {
            bias[class] + (0..channels).map(|it| means[it] * kernel[it * 6 + class]).sum::<f64>()
        };
        let powers: Vec<f64> = (0..6).map(|class| dot(class).exp()).collect();
        let all: f64 = powers.iter().sum();
        powers.iter().map(|it| it / all).collect()
    }

    fn conv(&self, layer: &str, from: &Values, stride: usize) -> Values {
        let (kernel, bias) = (self.get(layer, "kernel"), self.get(layer, "bias"));
        let (height, width, inner, values) = from;
        let (out_height, out_width) = ((height - 3) / stride + 1, (width - 3) / stride + 1);
        let mut made = Vec::new();
        for y in 0..out_height {
            for x in 0..out_width {
                for (out, bias) in bias.iter().enumerate() {
                    let mut sum = *bias;
                    for place in 0..9 {
                        let (dy, dx) = (place / 3, place % 3);
                        let at = ((y * stride + dy) * width + x * stride + dx) * inner;
                        for channel in 0..*inner {
                            let weight = kernel[(place * inner + channel) * 4 + out];
                            sum += values[at + channel] * weight;
                        }
                    }
                    made.push(sum);
                }
            }
        }
        (out_height, out_width, 4, made)
    }

    fn norm(&self, layer: &str, mut values: Values) -> Values {
        let [gamma, beta, mean, variance] =
            ["gamma", "beta", "moving_mean", "moving_variance"].map(|it| self.get(layer, it));
        for (index, value) in values.3.iter_mut().enumerate() {
            let it = index % 4;
            *value = gamma[it] * (*value - mean[it]) / (variance[it] + 0.001).sqrt() + beta[it];
        }
        values
    }
}

fn relu(mut values: Values) -> Values {
    values.3.iter_mut().for_each(|it| *it = it.max(0.0));
    values
}

/// With one row and column of zeros around it.
fn padded((height, width, channels, values): &Values) -> Values {
    let mut made = vec![0.0; (height + 2) * (width + 2) * channels];
    for y in 0..*height {
        let row = &values[y * width * channels..(y + 1) * width * channels];
        let at = ((y + 1) * (width + 2) + 1) * channels;
        made[at..at + row.len()].copy_from_slice(row);
    }
    (height + 2, width + 2, *channels, made)
}

fn pool((height, width, channels, values): &Values) -> Values {
    let (out_height, out_width) = ((height - 3) / 2 + 1, (width - 3) / 2 + 1);
    let mut made = Vec::new();
    for y in 0..out_height {
        for x in 0..out_width {
            for channel in 0..*channels {
                let at = |it: usize| {
                    values[((y * 2 + it / 3) * width + x * 2 + it % 3) * channels + channel]
                };
                made.push((0..9).map(at).fold(f64::MIN, f64::max));
            }
        }
    }
    (out_height, out_width, *channels, made)
}
